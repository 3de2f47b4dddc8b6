import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Log, StoreCorruptError, StoreNewerError, SystemClock } from '@taskmaster/engine/ports';
import { compileEarly } from '@taskmaster/server/memory';
import { complain, createLogger, explainStartError, untilSignal, withoutPasswords } from '@taskmaster/server/program';
import type { NodeSettings } from '../config.ts';
import { accessOfPod, openApi, podFuture } from '../kubernetes/index.ts';
import { type RunningMember, type RunningNode, startNode } from '../node.ts';

export interface ServeOptions {
  readonly config: NodeSettings;
  /** Report the state of the node as one line of JSON, for programs. */
  readonly json: boolean;
}

/**
 * Why a node ends. `barred`: it was removed, its data directory is an older copy, or its database is not its own any more.
 * `fenced`: it is a member that shares a store, and did not answer for a while.
 */
type EndReason = 'signal' | 'left' | 'barred' | 'fenced';

/** A node that is not confirmed by then reports what it waits for. Running members usually answer earlier. */
const REPORT_WAIT_AFTER_MS = 2_500;

/** Time between two tries to start anew, in ms, and how many of them say why they failed. */
const AGAIN_AFTER_MS = 1_000;
const SAY_EACH = 10;

/** Runs a node until a signal stops it, it leaves its cluster or it is removed. Resolves with the exit code of the process. */
export async function serve({ config, json }: ServeOptions): Promise<number> {
  compileEarly();
  const log = createLogger(config.logLevel);
  // The process still ends: after an unexpected error its state is unknown. A restart recovers from disk.
  process.on('uncaughtExceptionMonitor', (err) => log.fatal({ err }, 'unexpected error: the node exits'));

  const starting = new AbortController();
  const stopSignal = untilSignal((signal) => {
    log.info({ signal }, 'shutting down; a second signal exits at once');
    starting.abort();
  });
  let startsAnew = false;
  for (let failures = 0; ; ) {
    let node: RunningNode;
    try {
      node = await startNode(config, { log, signal: starting.signal });
    } catch (error) {
      if (starting.signal.aborted) return 0;
      // It has served with these settings: the database, for example, is away for a moment.
      if (startsAnew && !(error instanceof StoreCorruptError) && !(error instanceof StoreNewerError)) {
        if (failures++ % SAY_EACH === 0) log.warn({ err: error }, 'could not start anew; trying again');
        await delay(AGAIN_AFTER_MS, undefined, { signal: starting.signal }).catch(() => {});
        continue;
      }
      log.debug({ err: error }, 'could not start');
      complain('taskmaster-node', explainStartError(error, config));
      return 1;
    }
    const reason = await served(node, stopSignal, (waitsFor) => {
      process.stdout.write(json ? stateJson(node, config, waitsFor) : stateText(node, config, waitsFor));
    });
    if (reason === 'signal' && node.member && (await mustDrain(config, log)))
      await drain(node.member, config.cluster.drainTimeoutMs, log);
    await node.stop();
    if (reason === 'fenced') {
      log.warn({}, 'other members have taken over what this node held: it starts anew');
      startsAnew = true;
      failures = 0;
      continue;
    }
    log.info({}, 'stopped');
    return reason === 'barred' ? 1 : 0;
  }
}

/** Resolves with the reason to end. Calls `report` when the node serves, and before that if it waits for other members. */
async function served(
  node: RunningNode,
  stopSignal: Promise<void>,
  report: (waitsFor?: string) => void,
): Promise<EndReason> {
  const { member } = node;
  const isSignalled = stopSignal.then((): EndReason => 'signal');
  const isLost = node.lost.then(({ kind, message }): EndReason => {
    if (member && kind === 'fenced') return 'fenced';
    complain('taskmaster-node', message);
    return 'barred';
  });
  if (!member) {
    report();
    return Promise.race([isSignalled, isLost]);
  }
  const end = Promise.race([
    isSignalled,
    isLost,
    member.left.then((): EndReason => 'left'),
    member.barred.then((): EndReason => 'barred'),
  ]);
  const patience = new AbortController();
  const first = await Promise.race([
    end,
    member.confirmed.then(
      () => 'confirmed' as const,
      () => end,
    ),
    delay(REPORT_WAIT_AFTER_MS, 'waiting' as const, { signal: patience.signal }),
  ]);
  patience.abort();
  if (first === 'waiting') {
    report(member.problem);
    member.confirmed.then(
      () => report(),
      // The node ends.
      () => {},
    );
  } else if (first === 'confirmed') {
    report();
  }
  return end;
}

/** Whether the node leaves its cluster now that it was told to stop. */
async function mustDrain({ drainOnShutdown, kubernetes, name }: NodeSettings, log: Log): Promise<boolean> {
  if (drainOnShutdown !== 'scale-down') return drainOnShutdown === 'always';
  const deps = { api: async () => openApi(await accessOfPod(process.env)), clock: new SystemClock(), log };
  const future = await podFuture(name || hostname(), kubernetes.statefulSet, deps);
  log.info(
    future,
    future.kind === 'goes' ? 'the pod was scaled away: handing over' : 'the pod comes back: the partitions stay',
  );
  return future.kind === 'goes';
}

/** Tries to hand all partitions over. If that fails or takes too long, the node continues after its next start. */
async function drain(member: RunningMember, withinMs: number, log: Log): Promise<void> {
  try {
    await member.drain(AbortSignal.timeout(withinMs));
  } catch (err) {
    log.error({ err }, 'some partitions were not handed over; the node keeps them and continues after its next start');
  }
}

function stateJson(
  { grpcAddress, httpAddress, member }: RunningNode,
  { dataDir, store }: NodeSettings,
  waits?: string,
): string {
  const line = {
    ...(waits === undefined ? { ready: true } : { ready: false, reason: waits }),
    grpc: grpcAddress,
    http: httpAddress,
    ...(store.url === '' ? { dataDir: resolve(dataDir) } : { store: withoutPasswords(store.url) }),
    pid: process.pid,
    ...(member && { name: member.name, cluster: member.clusterId, gossip: member.gossipAddress }),
  };
  return `${JSON.stringify(line)}\n`;
}

function stateText(
  { grpcAddress, httpAddress, member }: RunningNode,
  { dataDir, store }: NodeSettings,
  waits?: string,
): string {
  return [
    waits === undefined ? 'TaskMaster is ready.' : `TaskMaster is not ready yet: ${waits}.`,
    `  gRPC    ${grpcAddress}`,
    `  queues  http://${httpAddress}/`,
    `  data    ${store.url === '' ? resolve(dataDir) : withoutPasswords(store.url)}`,
    ...(member
      ? [`  member  ${member.name} of cluster ${member.clusterId}; others join with --join ${member.rpcAddress}`]
      : []),
    '',
  ].join('\n');
}
