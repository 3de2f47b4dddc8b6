import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { NodeMetrics } from '../../../packages/node/src/http/metrics.ts';
import { createProxyHttp } from '../../../packages/proxy/src/proxy-http.ts';
import { noAudit } from '../../../packages/server/src/ports/audit.ts';
import { root } from '../../support/paths.ts';
import { documents } from './documents.ts';

const nothing = { version: '0', memory: { memory: 0, parts: {} }, grpc: () => undefined, tls: () => undefined };

const node = new NodeMetrics({
  ...nothing,
  engine: () => undefined,
  health: () => ({ kind: 'starting' }),
  storeSize: () => undefined,
  cluster: () => undefined,
  database: () => undefined,
  access: () => undefined,
  limitedGroups: () => [],
  maxQueues: 1,
}).registry;

const proxy = createProxyHttp(
  { host: '127.0.0.1', port: 0 },
  {
    ...nothing,
    routes: () => undefined,
    figures: () => undefined,
    service: () => undefined,
    methods: () => undefined,
    name: () => '',
    cluster: () => '',
    grpcAddress: () => '',
    isReady: () => false,
    reachable: () => 0,
    scalerStreams: () => 0,
    gossip: () => undefined,
    clocks: () => [],
    tls: undefined,
    problem: () => undefined,
    access: undefined,
    audit: noAudit,
    changes: () => [],
    guardsMetrics: false,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  },
).metrics.registry;

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** The metrics of TaskMaster, without those of the process and of Node, which the library adds. */
function metricsOf(registry: typeof node): Metric[] {
  return registry
    .getMetricsAsArray()
    .map((metric) => ({
      name: metric.name,
      help: metric.help,
      type: String(metric.type),
      labels: 'labelNames' in metric && Array.isArray(metric.labelNames) ? metric.labelNames.map(String) : [],
    }))
    .filter(({ name }) => name.startsWith('taskmaster_'))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

const ofNodes = metricsOf(node);
const ofProxies = metricsOf(proxy);

function tableOf(metrics: readonly Metric[]): string {
  const rows = metrics.map(({ name, labels, type, help }) => {
    const shown = labels.length === 0 ? name : `${name}{${labels.join(',')}}`;
    return `| \`${shown}\` | ${type} | ${help} |`;
  });
  return ['| metric | type | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}

describe('metrics in documents', () => {
  test('docs/reference/metrics.md has all of them (vitest -u writes it)', async () => {
    const text = [
      '# Metrics\n',
      'Metrics of nodes and proxies at `/metrics`, in the text format of Prometheus. A test generates this page.',
      '[Monitoring](../operate/monitoring.md) explains which of them to watch. The usual metrics of the process and of Node.js',
      '(`process_…`, `nodejs_…`) come in addition. A histogram has three kinds of series: `_bucket`, `_sum` and `_count`.\n',
      'A counter starts at 0 with the process. A counter with a `queue` label also starts at 0 with a new queue, and when the queue moves',
      'to another node. Prometheus allows for this. The series of a queue end when it has been empty for',
      '`engine.emptyQueueRetentionMs`. The label `_other` stands for [all smaller queues together](../operate/monitoring.md#queues).\n',
      '## A node\n',
      tableOf(ofNodes),
      '\n## A proxy\n',
      tableOf(ofProxies),
      '',
    ].join('\n');
    await expect(text).toMatchFileSnapshot(join(root, 'docs/reference/metrics.md'));
  });

  test('exist and have the shown labels', () => {
    const known = new Map([...ofNodes, ...ofProxies].map((metric) => [metric.name, metric]));
    // Documents also show the series of a histogram.
    const seriesOf = (name: string): Metric | undefined => {
      const metric = known.get(name.replace(/_(?:bucket|sum|count)$/, ''));
      return metric?.type === 'histogram' ? metric : undefined;
    };
    const wrong = documents.flatMap(({ path, text }) =>
      [...text.matchAll(/\b(taskmaster_[a-z_]*[a-z])(?:\{([^}]*)\})?/g)].flatMap(([shown, name = '', labels]) => {
        const metric = known.get(name) ?? seriesOf(name);
        const named = labels?.split(',').map((label) => label.replace(/[=!].*/, '')) ?? [];
        const isRight = metric !== undefined && named.every((label) => metric.labels.includes(label));
        return isRight ? [] : [`${path}: ${shown}`];
      }),
    );
    expect(wrong).toEqual([]);
  });
});
