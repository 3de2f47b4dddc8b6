import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { CLUSTER_SHARDS } from '../../../examples/crawler/queues.ts';
import { DEFAULT_STOP_TIMEOUT } from '../../../packages/client/src/values/options.ts';
import { workerSettings } from '../../../packages/client/src/worker/worker-options.ts';
import { DEFAULT_ENGINE_CONFIG as engine } from '../../../packages/engine/src/config.ts';
import { familyNames } from '../../../packages/engine/src/ports/store.ts';
import { completeConfig } from '../../../packages/node/src/config.ts';
import { type NodePart, nodeMemorySpec } from '../../../packages/node/src/memory.ts';
import { FORMAT_FILE } from '../../../packages/node/src/store/format-file.ts';
import { ACCEPT_LOSS_FILE } from '../../../packages/node/src/store/open-database.ts';
import { RESERVE_FILE } from '../../../packages/node/src/store/reserve-file.ts';
import { SYNC_MARK_FILE } from '../../../packages/node/src/store/sync-mark.ts';
import { KEPT_LOGS, SYNCED_FILES } from '../../../packages/node/src/store/synced-files.ts';
import { UNFINISHED_RESTORE_FILE } from '../../../packages/node/src/store/unfinished-restore.ts';
import { completeProxyConfig } from '../../../packages/proxy/src/config.ts';
import { proxyMemorySpec } from '../../../packages/proxy/src/memory.ts';
import { DEFAULT_ROUTER_LIMITS as router } from '../../../packages/proxy/src/router/routing/router.ts';
import { divideMemory, GIB, type MemorySpec } from '../../../packages/server/src/program/memory/index.ts';
import { root } from '../../support/paths.ts';
import { constant } from './constant.ts';
import { documentAt } from './documents.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const count = new Intl.NumberFormat('en-US').format;

const SPELLED: Readonly<Record<number, string>> = {
  [SECOND / 2]: 'half a second',
  [SECOND]: 'another second',
  [5 * SECOND]: 'five seconds',
  [MINUTE]: 'a minute',
  [5 * MINUTE]: 'five minutes',
  [60 * MINUTE]: 'an hour',
  [365 * 24 * 60 * MINUTE]: 'a year',
  [10 * 365 * 24 * 60 * MINUTE]: 'ten years',
};

const NUMBERS: Readonly<Record<number, string>> = { 5: 'five', 10: 'ten' };

/** The oldest version of Node that a package runs on. */
function enginesOf(folder: string): string {
  const { engines } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  return engines.node.replace('>=', '');
}

/** A duration in words. */
const spelled = (ms: number): string => SPELLED[ms] ?? `${ms} ms (not in SPELLED)`;

const node = completeConfig({}).config;
const proxy = completeProxyConfig({ join: ['a:1'] }).config;
const worker = workerSettings({});
const SENDER = 'node/src/cluster/placement/handoff/sender.ts';

/** The libraries that the prebuilt RocksDB for Linux needs, from the versions of symbols in it. */
const ROCKSDB_BUILD = ((): string => {
  const folder = join(root, 'packages/node/node_modules/@nxtedition/rocksdb/prebuilds/linux-x64');
  const symbols = readFileSync(join(folder, '@nxtedition+rocksdb.node'), 'latin1');
  const newest = (library: string): number =>
    Math.max(...[...symbols.matchAll(new RegExp(`\\b${library}\\.(\\d+)\\0`, 'g'))].map(([, minor]) => Number(minor)));
  return `glibc 2.${newest('GLIBC_2')} or newer, libstdc++ 6.0.${newest('GLIBCXX_3\\.4')} (GCC 12) or newer`;
})();

const stopped = constant('client/src/worker/worker-run.ts', 'ABORTED_MS');
const givenBack = constant('client/src/tasks/lease-tasks.ts', 'GIVE_BACK_MS');
const joined = constant('client/src/calls/update-joiner.ts', 'SMALL_ITEMS');
const joinedBytes = constant('client/src/calls/update-joiner.ts', 'MOST_BYTES') / 4;
const unwritten = constant('engine/src/pending/pending-changes.ts', 'MOST_TASKS');
const unwrittenBytes = constant('engine/src/pending/pending-changes.ts', 'MOST_BYTES');
const many = constant('client/src/api/queue.ts', 'MANY_TASKS');
const ahead = constant('client/src/worker/worker-run.ts', 'AHEAD_MS');

/** The least memory of a program, whose message names it. */
function leastMemory(spec: MemorySpec<string>): number {
  const refused = divideMemory(spec, { memory: 1, parts: {} }, LARGE);
  if (refused.kind !== 'refused') throw new Error('one byte is enough');
  return Number(/at least (\d+)MiB/.exec(refused.problem)?.[1]) * MIB;
}

/** The memory that a program takes of a large machine. */
function usualMemory(spec: MemorySpec<string>): number {
  const division = divideMemory(spec, { memory: undefined, parts: {} }, LARGE);
  if (division.kind === 'refused') throw new Error(division.problem);
  return division.memory;
}

const LARGE = { bytes: 64 * GIB, source: 'machine' } as const;

/** The rows of the table of a node's parts: their sizes in MiB, for some memories. */
const memoryRows: readonly string[] = (
  [
    ['the process', 'process'],
    ['engine cache: the heads of queues', 'engine.cacheBytes'],
    ['block cache of RocksDB', 'store.blockCacheBytes'],
    ['memtables of RocksDB', 'store.memtableBytes'],
    ['request ids', 'engine.requestIdCacheBytes'],
    ['in flight: payloads of requests and of replies that are read', 'engine.maxInFlightBytes'],
    ['replies that clients have not read', 'grpc.maxUnreadReplyBytes'],
    ['young generation of V8', 'youngGeneration'],
    ['garbage of V8, fragments of the allocator', 'garbage'],
  ] satisfies readonly (readonly [string, NodePart | 'process' | 'garbage'])[]
).map(([part, name]) => {
  const sizes = [320 * MIB, 512 * MIB, GIB, undefined].map(
    (memory) => completeConfig({ memory: memory ?? usualMemory(nodeMemorySpec) }, LARGE).memory.parts[name] / MIB,
  );
  const setting = name.includes('.') ? ` \`${name}\`` : '';
  return `| ${part} |${setting} | ${sizes.map(Math.round).join(' | ')} |`;
});

/** Texts that documents must contain, with figures from the code. */
const sentences: readonly (readonly [document: string, ...told: string[]])[] = [
  [
    'docs/contract.md',
    `at most ${limits.dataBytes / MIB} MiB`,
    `Each part is UTF-8, at most ${limits.nameBytes} bytes`,
    `1 to ${limits.pidBytes} bytes`,
    `within the window (${engine.requestIdWindowMs / MINUTE} minutes by default)`,
    `are kept for ${spelled(engine.emptyQueueRetentionMs)} after it empties`,
    `\`durabilityFlushIntervalMs\` (${node.durabilityFlushIntervalMs} by default)`,
    `up to ${count(limits.updateItems)} enqueues`,
    `in more than ${constant('engine/src/last-attempts.ts', 'RECOVERED_AT_ONCE')} queues`,
  ],
  [
    'docs/quick-start.md',
    `gRPC on port ${node.grpcPort}, HTTP on port ${node.httpPort}`,
    `data in \`${node.dataDir}\``,
    `Node ${enginesOf('.')} or newer and npm`,
    `The client and the command line need Node ${enginesOf('packages/client')} or newer. A node, a proxy and the embedded queue need Node ${enginesOf('packages/node')}`,
    `lasts ${limits.defaultLeaseDurationMs / SECOND} s unless`,
  ],
  [
    'docs/concepts.md',
    `up to ${count(limits.updateItems)} in all`,
    `partitions**, ${count(engine.partitions)} of them by default`,
    `The crawler of the demo uses ${CLUSTER_SHARDS}`,
  ],
  ['docs/guides/delays.md', `longest delay is ${spelled(limits.delayMs)}`],
  ['docs/guides/pipelines.md', `at most ${count(limits.updateItems)} items`],
  [
    'docs/guides/retries-and-dead-letters.md',
    `\`initial\` is ${limits.defaultBackoffInitialMs / SECOND} s and \`max\` is ${limits.defaultBackoffMaxMs / (60 * MINUTE)} h unless`,
    `It is ${limits.defaultMaxAttempts} unless given`,
  ],
  [
    'docs/guides/workers.md',
    `at once, ${worker.concurrency} by default`,
    `lease after ${spelled(worker.maxLeaseMs)} (\`maxLeaseTime\`)`,
    `running handlers, ${DEFAULT_STOP_TIMEOUT.replace('s', ' s')} by default`,
  ],
  [
    'docs/reference/errors.md',
    `has more than ${constant('engine/src/domain/refusal.ts', 'METADATA_VALUE_CHARACTERS')} characters`,
  ],
  [
    'docs/reference/http.md',
    `are larger than ${constant('server/src/http/server.ts', 'MAX_HEADER_BYTES') / KIB} KiB`,
    `not read within ${constant('server/src/http/server.ts', 'REPLY_TIMEOUT_MS') / SECOND} s`,
    `more than ${['', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'][constant('server/src/http/connections.ts', 'MOST_BEHIND') + 1]} on one connection`,
    `from 1 to ${count(constant('server/src/http/rpc-gateway.ts', 'MOST_TIMEOUT_MS'))}. Default: ${count(constant('server/src/http/rpc-gateway.ts', 'TIMEOUT_MS'))}.`,
    `not answered within ${constant('server/src/http/overview.ts', 'PATIENCE_MS') / SECOND} seconds`,
  ],
  [
    'docs/operate/console.md',
    `for more than ${constant('node/src/service/watch/find-troubles.ts', 'OLD_MS') / MINUTE} minutes`,
    `was leased for ${constant('node/src/service/watch/find-troubles.ts', 'UNWORKED_MS') / MINUTE} minutes`,
    `up to ${count(constant('node/src/service/watch/queue-watch.ts', 'MOST_KEPT'))} queues`,
    `Beyond ${count(constant('node/src/service/watch/queue-watch.ts', 'MOST_TROUBLED'))} queues`,
  ],
  [
    'docs/reference/cli.md',
    `at most ${limits.dataBytes / MIB} MiB`,
    `the leases last, at most ${spelled(limits.leaseDurationMs)}`,
    `at most ${limits.waitMs / MINUTE}m |`,
    `up to ${count(limits.peekTasks)}; fewer come`,
    `a batch also ends at ${constant('cli/src/commands/enqueue-lines.ts', 'BATCH_BYTES') / KIB} KiB`,
    `SIGKILL after ${constant('cli/src/commands/run-command.ts', 'GRACE_MS') / SECOND} s`,
    `at most ${constant('cli/src/commands/cluster/partitions.ts', 'SHOWN_MOVING')} of them`,
  ],
  [
    'docs/reference/client.md',
    `${count(many)} or ${limits.requestBytes / 4 / MIB} MiB to a request`,
    `${limits.replyDataBytes / MIB} MiB | payload in the reply`,
    `more than ${joined} items or ${joinedBytes / KIB} KiB`,
    `read again every ${constant('client/src/transport/holder-routes.ts', 'REFRESH_MS') / SECOND} s`,
    `than it handles in ${ahead / SECOND} s`,
    `goes on for ${spelled(stopped)}`,
    `at most ${(stopped + givenBack) / SECOND} s after its timeout`,
    `${count(constant('client/src/transport/grpc-transport.ts', 'DEFAULT_CALLS_IN_FLIGHT'))} | unanswered calls`,
  ],
  [
    'README.md',
    `Node ${enginesOf('.')} or newer and npm`,
    `Node ${enginesOf('packages/client')} or newer does; a node, a proxy and the embedded mode need Node ${enginesOf('packages/node')}`,
    `gRPC on ${node.grpcPort}, HTTP on ${node.httpPort}, data in ${node.dataDir}`,
    `one address for all nodes, on ${proxy.grpcPort}`,
    `up to ${count(limits.updateItems)} tasks`,
    ROCKSDB_BUILD,
  ],
  ['packages/node/README.md', `Node ${enginesOf('packages/node')} or newer`, ROCKSDB_BUILD],
  ['docs/operate/deploy.md', `Node ${enginesOf('packages/node')} or newer`, ROCKSDB_BUILD],
  [
    'ARCHITECTURE.md',
    `${constant('engine/src/log/partition-row.ts', 'TICKETS_PER_MS')} tickets for each millisecond since 1970`,
    `more than ${spelled(constant('node/src/cluster/membership/commit-guard.ts', 'PAUSE_MS'))}`,
    `every ${constant('engine/src/operations/sweep-dead.ts', 'DEAD_SWEEP_MS')} ms`,
    `${count(engine.partitions)} by default`,
  ],
  [
    'docs/internals/hand-off.md',
    `up to ${NUMBERS[constant(SENDER, 'MOST_REHEARSALS')]} times`,
    `After ${NUMBERS[constant(SENDER, 'ATTEMPTS')]} attempts at one part`,
    `longer than ${constant(SENDER, 'REST_MS') / SECOND} s`,
    `about ${constant('engine/src/partitions/transfer/export-partition.ts', 'PART_BYTES') / KIB} KiB`,
    `transfer after ${spelled(constant('node/src/cluster/placement/handoff/receiver.ts', 'IDLE_MS'))}`,
    `Above ${constant('engine/src/partitions/backup/backups.ts', 'MAX_BACKLOG_BYTES') / MIB} MiB`,
    `nothing for ${spelled(constant('server/src/grpc/server.ts', 'READ_TIMEOUT_MS'))}`,
  ],
  [
    'docs/internals/data-on-disk.md',
    ...familyNames.map((family) => `| \`${family}\` | `),
    ...['node', 'clock', 'partition/', 'reap/', 'holder/', 'clear/', 'identity', 'member/'].map(
      (key) => `| \`${key}\` `,
    ),
    ...[SYNC_MARK_FILE, SYNCED_FILES, KEPT_LOGS, RESERVE_FILE, ACCEPT_LOSS_FILE].map((file) => `| \`${file}\` |`),
    `more than ${count(unwritten)} tasks or ${unwrittenBytes / MIB} MiB of payloads`,
    `Every ${engine.checkpointIntervalMs} ms`,
    `at most ${constant('engine/src/engine-state.ts', 'TASKS_PER_GROUP')} in each group`,
    `up to ${constant('engine/src/log/checkpoint.ts', 'MOST_SINGLE_DELETES')} entries`,
    ...[FORMAT_FILE, UNFINISHED_RESTORE_FILE].map((file) => `| \`${file}\` |`),
  ],
  [
    'docs/operate/proxies.md',
    `Updates of up to ${constant('proxy/src/upstream/sender.ts', 'SHARED_BYTES') / KIB} KiB in calls of their own`,
    `holds the call for up to ${router.holdTimeoutMs / SECOND} s`,
    `takes at most ${constant('proxy/src/router/leasing/leases.ts', 'STRICT_STEPS')} requests`,
  ],
  [
    'docs/operate/sizing.md',
    ...memoryRows,
    `the usual sizes of the parts: ${count(usualMemory(nodeMemorySpec) / MIB)} MiB`,
    `A node needs ${leastMemory(nodeMemorySpec) / MIB} MiB`,
    `takes ${usualMemory(proxyMemorySpec) / MIB} MiB by default and needs ${leastMemory(proxyMemorySpec) / MIB} MiB`,
    `Up to ${constant('engine/src/requests/forgotten-ids.ts', 'MOST_BYTES') / MIB} MiB of filters`,
  ],
  ['docs/operate/deploy.md', `at most ${spelled(engine.checkpointIntervalMs)} of work`],
  ['docs/operate/disks.md', `a file \`${ACCEPT_LOSS_FILE}\` in the directory`],
  [
    'docs/operate/cluster.md',
    `has answered for ${spelled(constant('node/src/cluster/membership/starting-role.ts', 'LOOK_FIRST_MS'))}`,
    `for more than ${spelled(constant('node/src/cluster/membership/commit-guard.ts', 'PAUSE_MS'))}`,
    `its progress every ${spelled(constant('node/src/cluster/report/share-log.ts', 'PROGRESS_MS'))}`,
    `at least ${constant('server/src/program/cluster-keys.ts', 'MIN_KEY_CHARACTERS')} characters`,
  ],
];

test.each(sentences)('the figures in %s are those of the code', (path, ...told) => {
  const text = documentAt(path).text.replace(/\s+/g, ' ');
  expect(told.filter((sentence) => !text.includes(sentence))).toEqual([]);
});
