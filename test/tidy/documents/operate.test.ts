import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { nodeSettings } from '../../../packages/node/src/cli/program.ts';
import { proxySettings } from '../../../packages/proxy/src/config.ts';
import { DEFAULT_TIMING } from '../../../packages/server/src/gossip/swim/options.ts';
import { DEFAULT_STREAM_LIMITS } from '../../../packages/server/src/grpc/request-stream.ts';
import { root } from '../../support/paths.ts';
import { constant } from './constant.ts';
import { documentAt } from './documents.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const MIB = 1024 * 1024;
const count = new Intl.NumberFormat('en-US').format;

const SPELLED: Readonly<Record<number, string>> = {
  2: 'two',
  3: 'three',
  4: 'four',
  5: 'five',
  10: 'ten',
  20: '20',
};

/** A number of seconds in words. */
function seconds(ms: number): string {
  const number = ms / SECOND;
  if (number === 1) return 'a second';
  return `${SPELLED[number] ?? `${number} (not in SPELLED)`} seconds`;
}

function defaultOf(
  name: string,
  table: { readonly all: readonly { readonly name: string; readonly default: unknown }[] },
) {
  return Number(table.all.find((setting) => setting.name === name)?.default);
}

const member = 'node/src/cluster/membership';
const search = seconds(constant(`${member}/commit-guard.ts`, 'SEARCH_MS'));
const callsOfConnection = defaultOf('grpc.maxConcurrentCallsPerConnection', nodeSettings);
const { intervalMs, pingTimeoutMs, pingReqTimeoutMs, suspectTimeoutMs } = DEFAULT_TIMING;
/** A removal is noticed by a beat, at most one after the grace period. */
const claimedMs = constant(`${member}/commit-guard.ts`, 'PAUSE_MS') + 2 * SECOND;
const waitingLeases = (DEFAULT_STREAM_LIMITS.callsInFlight * 3) / 4;

/** Texts that documents for operators must contain, with figures from the code. */
const sentences: readonly (readonly [path: string, ...told: string[]])[] = [
  [
    'docs/operate/autoscaling.md',
    `once ${seconds(defaultOf('scaler.pollIntervalMs', proxySettings))} (\`scaler.pollIntervalMs\`)`,
    `enough for ${callsOfConnection / 2 / 2} triggers`,
    `${count(limits.listQueues)} queues, or fewer`,
  ],
  [
    'docs/operate/backup.md',
    `about ${constant('backup/src/format/part.ts', 'PART_BYTES') / MIB} MiB of messages`,
    'waits up to a minute',
  ],
  [
    'docs/operate/cluster.md',
    `all members know within ${seconds(Math.ceil((2 * intervalMs + pingTimeoutMs + pingReqTimeoutMs + suspectTimeoutMs) / SECOND) * SECOND)}`,
    `looked for unknown members for ${search}`,
    `look for them for ${search}`,
    `they serve after ${search}`,
    `about ${claimedMs === 7 * SECOND ? 'seven seconds' : claimedMs} later`,
    'a difference of more than a minute',
  ],
  [
    'docs/operate/kubernetes.md',
    `asked the API server ${SPELLED[constant('node/src/kubernetes/stateful-set.ts', 'ATTEMPTS')]} times`,
  ],
  [
    'docs/operate/load-testing.md',
    `at most ${constant('cli/src/load/measure/timeline.ts', 'MOST_INTERVALS')} intervals`,
    `the first ${SPELLED[constant('cli/src/load/verify/verdict.ts', 'MOST_SHOWN')]} violations`,
  ],
  ['docs/operate/monitoring.md', `about ${seconds(constant('node/src/http/queue-metrics.ts', 'REUSE_MS'))} old`],
  [
    'docs/operate/proxies.md',
    `every ${constant('proxy/src/observed-routes.ts', 'SAY_EVERY_MS') / SECOND} s`,
    `dead for ${seconds(constant('proxy/src/router/routing/router.ts', 'RESTART_MS'))}`,
  ],
  [
    'docs/operate/sizing.md',
    `(${count(callsOfConnection)}) concurrent calls`,
    `${count(waitingLeases)} waiting leases on one`,
    `${count(constant('server/src/grpc/server.ts', 'RESETS_AT_ONCE'))} cancelled calls at once`,
    `${count(constant('server/src/grpc/server.ts', 'RESETS_PER_SECOND'))} more each second`,
  ],
  ['docs/operate/troubleshooting.md', `try again after ${search}`],
  [
    'docs/reference/cli.md',
    `After ${seconds(constant('client/src/api/cluster.ts', 'REMOVE_WAIT_MS'))} it ends`,
    `a line every ${seconds(constant('cli/src/commands/load/live-view.ts', 'LINE_EVERY_MS'))}`,
    `If more than ${count(limits.listQueues)} queues match`,
  ],
  [
    'docs/reference/http.md',
    `${defaultOf('httpPort', nodeSettings)} for a node, ${defaultOf('httpPort', proxySettings)} for a proxy`,
    `did not arrive within ${constant('server/src/http/server.ts', 'ARRIVAL_TIMEOUT_MS') / SECOND} s`,
    `last try, once ${seconds(constant('proxy/src/router/routing/reachability.ts', 'LOOK_MS'))}`,
  ],
  [
    'packages/proto/taskmaster/v1/tasks.proto',
    `Each part is valid UTF-8 of at most ${limits.nameBytes} bytes`,
    `1 to ${limits.pidBytes} bytes`,
    `Opaque payload, at most ${limits.dataBytes / MIB} MiB`,
    `How long the task is hidden, in ms, 0 to ${limits.delayMs / (365 * 24 * 60 * MINUTE)} years`,
    `at most ${count(limits.maxAttempts)}. 0: no limit`,
    `What went wrong. At most ${limits.errorMessageBytes} bytes`,
    `At most ${count(limits.errorDetailsBytes)} bytes`,
    `at most ${limits.requestIdBytes} bytes`,
    `window (${defaultOf('engine.requestIdWindowMs', nodeSettings) / MINUTE} minutes by default)`,
    `1 ms to ${limits.leaseDurationMs / (365 * 24 * 60 * MINUTE)} year. 0: that of each queue's settings. Without settings: ${limits.defaultLeaseDurationMs / SECOND} s`,
    `Without settings: ${limits.defaultMaxAttempts} attempts`,
    `Up to ${count(limits.leaseQueues)} queues`,
    `at most ${limits.leasePatterns} patterns`,
    `Maximum number of tasks from all queues, 1 to ${count(limits.leaseTasks)}`,
    `0 to ${limits.waitMs / MINUTE} minutes`,
    `at most ${limits.workerLabelBytes} bytes`,
    `0 to ${limits.replyDataBytes / MIB} MiB. 0: ${limits.replyDataBytes / MIB} MiB`,
    `1 to ${count(limits.batchRequests)} updates`,
    `1 to ${count(limits.batchRequests)} leases`,
  ],
  [
    'packages/proto/taskmaster/v1/inspection.proto',
    `Maximum number of tasks, 1 to ${count(limits.peekTasks)}`,
    `1 to ${count(limits.peekTasks)} PIDs and keys`,
    `at most ${limits.keptFailures}, the latest one last`,
  ],
  [
    'packages/proto/taskmaster/v1/queues.proto',
    `at most ${limits.regexBytes} bytes`,
    `1 to ${count(limits.listQueues)}. 0: 1,000`,
    `The queues, at most ${count(limits.listQueues)}`,
  ],
  [
    'packages/proto/taskmaster/v1/stream.proto',
    `Up to ${count(limits.streamCalls)} calls`,
    `up to ${count(limits.streamItems)} items of updates, queues of leases and tasks of waits`,
    `Up to ${count(waitingLeases)} leases and waits of a stream may wait`,
  ],
  [
    'packages/proto/taskmaster/v1/cluster.proto',
    `within ${seconds(constant(`${member}/administration.ts`, 'INVENTORY_TIMEOUT_MS'))}`,
    `about ${claimedMs / SECOND} s`,
    `More than ${count(constant(`${member}/removal.ts`, 'MOST_WAIT_MS'))} counts as`,
  ],
];

/** The text of a document, or the comments of a .proto file, without line breaks. */
function textOf(path: string): string {
  if (!path.endsWith('.proto')) return documentAt(path).text.replace(/\s+/g, ' ');
  return readFileSync(join(root, path), 'utf8').replace(/\s*\n\s*\/\/ /g, ' ');
}

test.each(sentences)('the figures in %s are those of the code', (path, ...told) => {
  const text = textOf(path);
  expect(told.filter((sentence) => !text.includes(sentence))).toEqual([]);
});

test('the page on Kubernetes has the figures of the chart', () => {
  const told = documentAt('docs/operate/kubernetes.md').text.replace(/\s+/g, ' ');
  const file = (path: string): string => readFileSync(join(root, 'deploy/k8s', path), 'utf8');
  const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1]);
  const nodes = file('templates/node/stateful-set.yaml');
  const [probe = ''] = /startupProbe:.*?failureThreshold: \d+/s.exec(nodes) ?? [];
  expect(numberIn(probe, /periodSeconds: (\d+)/) * numberIn(probe, /failureThreshold: (\d+)/)).toBe(30 * 60);
  expect(told).toContain('for up to half an hour');
  expect(numberIn(file('templates/proxy/_config.tpl'), /"maxConnectionAgeMs" (\d+)/)).toBe(10 * MINUTE);
  expect(told).toContain('after about ten minutes');
  const chart = file('Chart.yaml');
  expect(told).toContain(`Kubernetes ${/>=(\d+\.\d+)/.exec(chart)?.[1]}`);
  expect(told).toContain(`taskmaster:${/^appVersion: (.*)$/m.exec(chart)?.[1]} `);
  const [, nodeCount, proxyCount] =
    /"replicaCount": \{[^}]*?"default": (\d+).*"replicaCount": \{[^}]*?"default": (\d+)/s.exec(
      file('values.schema.json'),
    ) ?? [];
  expect(told).toContain(`This makes ${SPELLED[Number(nodeCount)]} nodes and ${SPELLED[Number(proxyCount)]} proxies`);
});
