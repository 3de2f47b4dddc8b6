import { connectBeanstalkd } from './clients/beanstalkd.ts';
import { connectBullMq } from './clients/bullmq.ts';
import type { Connect } from './clients/client.ts';
import { connectGraphileWorker } from './clients/graphile-worker.ts';
import { connectPgBoss } from './clients/pg-boss.ts';
import { connectRabbitMq } from './clients/rabbitmq.ts';
import { connectRiverPattern } from './clients/river.ts';
import { connectSql } from './clients/sql.ts';
import { connectTaskMaster } from './clients/taskmaster.ts';
import { NotInstalledError } from './commands.ts';
import { OURSELVES } from './results.ts';
import { beanstalkd } from './servers/beanstalkd.ts';
import { postgres } from './servers/postgres.ts';
import { rabbitmq } from './servers/rabbitmq.ts';
import { redis } from './servers/redis.ts';
import type { ServerKind } from './servers/server.ts';
import { taskmaster } from './servers/taskmaster.ts';
import { taskmasterOnPostgres } from './servers/taskmaster-postgres.ts';

/** Another queue for comparison: its server and its client library. */
export interface Peer {
  readonly name: string;
  readonly server: ServerKind;
  readonly connect: Connect;
}

export const peers: readonly Peer[] = [
  { name: OURSELVES, server: taskmaster, connect: connectTaskMaster },
  { name: 'taskmaster-postgres', server: taskmasterOnPostgres, connect: connectTaskMaster },
  { name: 'bullmq', server: redis, connect: connectBullMq },
  { name: 'beanstalkd', server: beanstalkd, connect: connectBeanstalkd },
  { name: 'rabbitmq', server: rabbitmq, connect: connectRabbitMq },
  { name: 'postgres-sql', server: postgres, connect: connectSql },
  { name: 'postgres-river', server: postgres, connect: connectRiverPattern },
  { name: 'pg-boss', server: postgres, connect: connectPgBoss },
  { name: 'graphile-worker', server: postgres, connect: connectGraphileWorker },
];

export function peerNamed(name: string): Peer | undefined {
  return peers.find((one) => one.name === name);
}

/** The reason why a peer cannot be started on this machine; undefined if it can. */
export function missingOf(peer: Peer): NotInstalledError | undefined {
  try {
    peer.server.find();
    return undefined;
  } catch (error) {
    if (error instanceof NotInstalledError) return error;
    throw error;
  }
}
