import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '@taskmaster/server/ports';
import { createLogger, explainStartError, untilSignal } from '@taskmaster/server/program';
import type { NodeConfig } from '../config.ts';
import { type RunningMember, type RunningNode, startNode } from '../node.ts';

export interface ServeOptions {
  readonly config: NodeConfig;
  /** The router of a member of a cluster. */
  /** Says that it is ready in a line of JSON, for programs. */
  readonly json: boolean;
}

/** Why a node ends. */
type Why = 'told' | 'left' | 'barred';

/** Other members answer sooner, where they are there. */
const WAIT_UNSAID_MS = 2_500;

/** Runs a node until it is told to stop. Resolves with the exit code of the process. */
export async function serve({ config, json }: ServeOptions): Promise<number> {
  const log = createLogger(config.logLevel);
  // The process still ends, as it must when it does not know its own state; a restart finds everything on disk.
  process.on('uncaughtExceptionMonitor', (err) => log.fatal({ err }, 'unexpected error: the node ends'));

  const starting = new AbortController();
  const told = untilSignal((signal) => {
    log.info({ signal }, 'stopping; a second signal ends the node at once');
    starting.abort();
  });
  let node: RunningNode;
  try {
    node = await startNode(config, { log, signal: starting.signal });
  } catch (error) {
    if (starting.signal.aborted) return 0;
    log.debug({ err: error }, 'could not start');
    process.stderr.write(`taskmaster-node: ${explainStartError(error, config)}\n`);
    return 1;
  }
  const why = await served(node, told, (waitsFor) => {
    process.stdout.write(json ? stateJson(node, config, waitsFor) : stateText(node, config, waitsFor));
  });
  if (why === 'told' && config.drainOnStop && node.member) await drain(node.member, config.cluster.drainTimeoutMs, log);
  await node.stop();
  log.info({}, 'stopped');
  return why === 'barred' ? 1 : 0;
}

/** Resolves with why the node is to end. `say` is told when it serves, and, with whom for, when it waits to. */
async function served(node: RunningNode, told: Promise<void>, say: (waitsFor?: string) => void): Promise<Why> {
  const { member } = node;
  const isTold = told.then((): Why => 'told');
  if (!member) {
    say();
    return isTold;
  }
  const end = Promise.race([
    isTold,
    member.left.then((): Why => 'left'),
    // An operator has written that off, or its data is old; the log says which.
    member.barred.then((): Why => 'barred'),
  ]);
  const patience = new AbortController();
  const first = await Promise.race([
    end,
    member.confirmed.then(
      () => 'confirmed' as const,
      () => end,
    ),
    delay(WAIT_UNSAID_MS, 'waiting' as const, { signal: patience.signal }),
  ]);
  patience.abort();
  if (first === 'waiting') {
    say(member.problem);
    member.confirmed.then(
      () => say(),
      // It ends.
      () => {},
    );
  } else if (first === 'confirmed') {
    say();
  }
  return end;
}

/** A node that cannot hand everything over stops all the same: it keeps what it has, and goes on when it is started. */
async function drain(member: RunningMember, withinMs: number, log: Log): Promise<void> {
  try {
    await member.drain(AbortSignal.timeout(withinMs));
  } catch (err) {
    log.error({ err }, 'not everything was handed over; the node keeps the rest, and hands it over when it is started');
  }
}

function stateJson({ grpcAddress, httpAddress, member }: RunningNode, { dataDir }: NodeConfig, waits?: string): string {
  const line = {
    ...(waits === undefined ? { ready: true } : { ready: false, reason: waits }),
    ...{ grpc: grpcAddress, http: httpAddress, dataDir: resolve(dataDir), pid: process.pid },
    ...(member && { name: member.name, cluster: member.clusterId, gossip: member.gossipAddress }),
  };
  return `${JSON.stringify(line)}\n`;
}

function stateText({ grpcAddress, httpAddress, member }: RunningNode, { dataDir }: NodeConfig, waits?: string): string {
  return [
    waits === undefined ? 'TaskMaster is ready.' : `TaskMaster is not ready yet: ${waits}.`,
    `  gRPC    ${grpcAddress}`,
    `  queues  http://${httpAddress}/`,
    `  data    ${resolve(dataDir)}`,
    ...(member
      ? [`  member  ${member.name} of cluster ${member.clusterId}; others join with --join ${member.rpcAddress}`]
      : []),
    '',
  ].join('\n');
}
