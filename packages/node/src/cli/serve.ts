import { resolve } from 'node:path';
import type { NodeConfig } from '../config.ts';
import { createLogger } from '../logging.ts';
import { type RunningMember, type RunningNode, type StartNodeOptions, startNode } from '../node.ts';
import type { Log } from '../ports/log.ts';
import { explainStartError } from './start-errors.ts';
import { untilSignal } from './until-signal.ts';

export interface ServeOptions {
  readonly config: NodeConfig;
  /** The router of a member of a cluster. */
  readonly front?: StartNodeOptions['front'];
  /** Says that it is ready in a line of JSON, for programs. */
  readonly json: boolean;
}

/** Runs a node until it is told to stop. Resolves with the exit code of the process. */
export async function serve({ config, front, json }: ServeOptions): Promise<number> {
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
    node = await startNode(config, { log, signal: starting.signal, ...(front && { front }) });
  } catch (error) {
    if (starting.signal.aborted) return 0;
    log.debug({ err: error }, 'could not start');
    process.stderr.write(`taskmaster-node: ${explainStartError(error, config)}\n`);
    return 1;
  }
  process.stdout.write(json ? readyJson(node, config) : readyText(node, config));
  const why = await Promise.race([
    told.then(() => 'told' as const),
    node.member?.left.then(() => 'left' as const) ?? told,
  ]);
  if (why !== 'left' && config.drainOnStop && node.member) await drain(node.member, config.cluster.drainTimeoutMs, log);
  await node.stop();
  log.info({}, 'stopped');
  return 0;
}

/** A node that cannot hand everything over stops all the same: it keeps what it has, and goes on when it is started. */
async function drain(member: RunningMember, withinMs: number, log: Log): Promise<void> {
  log.info({ withinMs }, 'handing everything over');
  try {
    await member.drain(AbortSignal.timeout(withinMs));
    log.info({}, 'left the cluster');
  } catch (err) {
    log.error({ err }, 'not everything was handed over; the node keeps the rest, and hands it over when it is started');
  }
}

function readyJson({ grpcAddress, httpAddress, member }: RunningNode, { dataDir }: NodeConfig): string {
  const line = {
    ...{ ready: true, grpc: grpcAddress, http: httpAddress, dataDir: resolve(dataDir), pid: process.pid },
    ...(member && { name: member.name, cluster: member.clusterId, gossip: member.gossipAddress }),
  };
  return `${JSON.stringify(line)}\n`;
}

function readyText({ grpcAddress, httpAddress, member }: RunningNode, { dataDir }: NodeConfig): string {
  return [
    'TaskMaster is ready.',
    `  gRPC    ${grpcAddress}`,
    `  queues  http://${httpAddress}/`,
    `  data    ${resolve(dataDir)}`,
    ...(member
      ? [`  member  ${member.name} of cluster ${member.clusterId}; others join with --join ${member.rpcAddress}`]
      : []),
    '',
  ].join('\n');
}
