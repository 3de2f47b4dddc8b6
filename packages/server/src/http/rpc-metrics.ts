import { status } from '@grpc/grpc-js';
import type { DurationCounts } from '@taskmaster/engine/domain';
import { type Reason, statusOfReason } from '@taskmaster/proto';
import { Counter, collectDefaultMetrics, Gauge, Histogram, type LabelValues, Registry } from 'prom-client';
import type { Access } from '../access/access.ts';
import type { Tls } from '../tls/tls.ts';

/** The memory of the program and its parts, in bytes. */
interface MemoryParts {
  readonly memory: number;
  readonly parts: Readonly<Record<string, number>>;
}

/** What the metrics tell of a gRPC server. */
interface GrpcFigures {
  readonly connections: number;
  readonly refusedConnections: number;
  readonly unreadReplyBytes: number;
  readonly receivingBytes: number;
  readonly waitingBytes: number;
  readonly handshakes?: { readonly completed: number; readonly failed: number } | undefined;
}

export interface RpcMetricsSources {
  readonly version: string;
  readonly memory: MemoryParts;
  /** Figures of the gRPC server. Undefined before it serves. */
  readonly grpc: () => GrpcFigures | undefined;
  /** Undefined: plain text. */
  readonly tls: () => Tls | undefined;
  /** The rules of access. Undefined: none. */
  readonly access: () => Pick<Access, 'reloadFailed'> | undefined;
}

/** From a reply out of memory to a slow disk. Leases that wait for tasks take longer. */
const RPC_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600];

/** Reasons whose counters are there from the start, at 0, because alerts look at their rates. */
const ALERTED: readonly Reason[] = [
  'OVERLOADED',
  'DISK_FULL',
  'STORE_FAILED',
  'CORRUPT_DATA',
  'HOLDER_UNREACHABLE',
  'OUTCOME_UNKNOWN',
  'CLOCK_SKEW',
];

/** How often the delay of the event loop is sampled. With the library's 10 ms this is most of the CPU time of an idle node. */
const LOOP_SAMPLE_MS = 50;

/** Metrics that nodes and proxies share, in the text format of Prometheus. Each of them adds its own. */
export class RpcMetrics {
  readonly registry = new Registry();
  readonly #rpc: Histogram<'method' | 'code'>;
  readonly #refusals: Counter<'reason'>;
  /** Cached children: a lookup by labels costs more than the observation. */
  readonly #rpcs = new Map<string, Histogram.Internal<'method' | 'code'>>();

  constructor({ version, memory: { memory, parts }, grpc, tls, access }: RpcMetricsSources) {
    const registers = [this.registry];
    this.#rpc = new Histogram({
      name: 'taskmaster_rpc_duration_seconds',
      help: 'Time to answer a call, including the wait for tasks. Unary calls and calls over a stream count alike.',
      labelNames: ['method', 'code'],
      buckets: RPC_SECONDS,
      registers,
    });
    this.#refusals = new Counter({
      name: 'taskmaster_refusals_total',
      help: 'Calls refused, by reason.',
      labelNames: ['reason'],
      registers,
    });
    // A rate misses what a counter has when it first appears.
    for (const reason of ALERTED) this.#refusals.labels(reason).inc(0);
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
    new Gauge({
      name: 'taskmaster_build_info',
      help: 'Always 1. The labels are the versions of TaskMaster and of Node.js.',
      labelNames: ['version', 'node'],
      registers,
    })
      .labels(version, process.version)
      .set(1);
    this.gauge(
      'memory_bytes',
      'Memory that the program may use. Compare it with process_resident_memory_bytes.',
      [],
      (gauge) => gauge.set(memory),
    );
    this.gauge('memory_part_bytes', 'Parts of the memory: the largest size of each.', ['part'], (gauge) => {
      for (const [part, bytes] of Object.entries(parts)) gauge.labels(part).set(bytes);
    });
    this.gaugeIfKnown(
      'tls_certificate_expires_timestamp_seconds',
      'When the certificate of this program expires, in seconds since 1970. No value without TLS.',
      () => {
        const expiresAt = tls()?.material.expiresAt;
        return expiresAt && expiresAt / 1000;
      },
    );
    this.counter('tls_reloads_total', 'How often changed files of TLS were taken over.', () => tls()?.reloads);
    this.gauge(
      'reload_failed',
      'Label what: tls or access. 1 while the changed files cannot be used, so that the old contents stay in force; otherwise 0. No value without such files.',
      ['what'],
      (gauge) => {
        gauge.reset();
        const failures = { tls: tls()?.reloadFailed, access: access()?.reloadFailed };
        for (const [what, failed] of Object.entries(failures)) {
          if (failed !== undefined) gauge.labels(what).set(Number(failed));
        }
      },
    );
    this.labelledCounter(
      'tls_handshakes_total',
      'TLS handshakes of gRPC connections. Label result: completed or failed. No value without TLS.',
      ['result'],
      async () => Object.entries(grpc()?.handshakes ?? {}).map(([result, count]) => ({ labels: { result }, count })),
    );
    this.gauge('connections', 'Open gRPC connections.', [], (gauge) => gauge.set(grpc()?.connections ?? 0));
    this.counter(
      'refused_connections_total',
      'gRPC connections that were refused because too many were open.',
      () => grpc()?.refusedConnections,
    );
    this.gauge('receiving_bytes', 'Bytes of requests that have not arrived completely.', [], (gauge) =>
      gauge.set(grpc()?.receivingBytes ?? 0),
    );
    this.gauge('waiting_bytes', 'Memory of the names of queues for which lease requests wait.', [], (gauge) =>
      gauge.set(grpc()?.waitingBytes ?? 0),
    );
    this.gauge('unread_reply_bytes', 'Bytes of replies that clients have not read yet.', [], (gauge) =>
      gauge.set(grpc()?.unreadReplyBytes ?? 0),
    );
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  callEnded(method: string, reason: Reason | undefined, durationMs: number): void {
    if (reason !== undefined) this.#refusals.labels(reason).inc();
    const key = reason === undefined ? method : `${method} ${reason}`;
    let child = this.#rpcs.get(key);
    if (child === undefined) {
      child = this.#rpc.labels(method, reason === undefined ? 'OK' : (status[statusOfReason[reason]] ?? 'UNKNOWN'));
      this.#rpcs.set(key, child);
    }
    child.observe(durationMs / 1000);
  }

  /** A gauge that is set when the metrics are requested. */
  gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    collect: (gauge: Gauge<L>) => void | Promise<void>,
  ): void {
    new Gauge<L>({
      name: `taskmaster_${name}`,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        return collect(this);
      },
    });
  }

  /** As `gauge`, without labels. While `value` returns undefined, there is no series: a 0 would be a value, and raise alerts. */
  gaugeIfKnown(name: string, help: string, value: () => number | undefined): void {
    this.gauge(name, help, [], (gauge) => {
      const known = value();
      // `reset` would set it to 0.
      if (known === undefined) gauge.remove();
      else gauge.set(known);
    });
  }

  /** A counter that is read when the metrics are requested. `count` returns undefined while the count is unknown. */
  counter(name: string, help: string, count: () => number | undefined): void {
    new Counter({
      name: `taskmaster_${name}`,
      help,
      registers: [this.registry],
      collect() {
        this.reset();
        const known = count();
        if (known !== undefined) this.inc(known);
      },
    });
  }

  /** A histogram of durations that are counted elsewhere. `read` returns undefined while the counts are unknown. */
  durations(name: string, help: string, read: () => DurationCounts | undefined): void {
    this.registry.registerMetric(new CountedHistogram(`taskmaster_${name}`, help, read));
  }

  /** As `counter`, with labels. `read` resolves with all series; a series that is missing there ends. */
  labelledCounter<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: () => Promise<readonly { readonly labels: LabelValues<L>; readonly count: number }[]>,
  ): void {
    new Counter<L>({
      name: `taskmaster_${name}`,
      help,
      labelNames,
      registers: [this.registry],
      async collect() {
        const series = await read();
        // In one turn: another request for the metrics may be collecting too.
        this.reset();
        for (const { labels, count } of series) this.inc(labels, count);
      },
    });
  }
}

interface Value {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * A histogram in seconds whose counts are kept elsewhere, because `observe` of the library costs too much for each task. `read`
 * returns undefined while the counts are unknown.
 */
class CountedHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #read: () => DurationCounts | undefined;

  constructor(name: string, help: string, read: () => DurationCounts | undefined) {
    super({ name, help, registers: [] });
    this.#name = name;
    this.#help = help;
    this.#read = read;
  }

  override async get(): ReturnType<Histogram['get']> {
    const metric = { name: this.#name, help: this.#help, type: 'histogram', aggregator: 'sum', values: this.#values() };
    // The library declares its types as an enum that it does not export.
    return metric as unknown as Awaited<ReturnType<Histogram['get']>>;
  }

  /** The library prefers this to `get` for its text. */
  getForPromString(): ReturnType<Histogram['get']> {
    return this.get();
  }

  #values(): Value[] {
    const counted = this.#read();
    if (counted === undefined) return [];
    const { bounds, counts, sumMs } = counted;
    let total = 0;
    const bucket = `${this.#name}_bucket`;
    const values: Value[] = bounds.map((bound, index) => {
      total += counts[index] ?? 0;
      return { metricName: bucket, labels: { le: bound / 1000 }, value: total };
    });
    total += counts[bounds.length] ?? 0;
    return [
      ...values,
      { metricName: bucket, labels: { le: '+Inf' }, value: total },
      { metricName: `${this.#name}_sum`, labels: {}, value: sumMs / 1000 },
      { metricName: `${this.#name}_count`, labels: {}, value: total },
    ];
  }
}
