import { status } from '@grpc/grpc-js';
import { type Reason, statusOfReason } from '@taskmaster/proto';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export interface RpcMetricsSources {
  readonly version: string;
  readonly connections: () => number;
  readonly unreadReplyBytes: () => number;
}

/** From a cached answer to a slow disk; leases that wait for tasks lie above. */
const RPC_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600];

/** How often the event loop's delay is sampled. The library's 10 ms are most of what an idle node does. */
const LOOP_SAMPLE_MS = 50;

/** The metrics that nodes and proxies have in common, in the text format of Prometheus, and a place for their own. */
export class RpcMetrics {
  readonly registry = new Registry();
  readonly #rpc: Histogram<'method' | 'code'>;
  readonly #refusals: Counter<'reason'>;
  /** Looking up a child by its labels costs more than counting. */
  readonly #rpcs = new Map<string, Histogram.Internal<'method' | 'code'>>();

  constructor({ version, connections, unreadReplyBytes }: RpcMetricsSources) {
    const registers = [this.registry];
    this.#rpc = new Histogram({
      name: 'taskmaster_rpc_duration_seconds',
      help: 'Time to answer a call, a wait for tasks included; calls of a stream and of unary methods alike.',
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
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
    new Gauge({
      name: 'taskmaster_build_info',
      help: 'Always 1; its labels say what is running.',
      labelNames: ['version', 'node'],
      registers,
    })
      .labels(version, process.version)
      .set(1);
    this.gauge('connections', 'gRPC connections that are open.', [], (gauge) => gauge.set(connections()));
    this.gauge('unread_reply_bytes', 'Replies that clients have not read yet.', [], (gauge) =>
      gauge.set(unreadReplyBytes()),
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

  /** A gauge that is set when somebody looks. */
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

  /** A counter that somebody else counts; undefined: nothing is known of it now. */
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
}
