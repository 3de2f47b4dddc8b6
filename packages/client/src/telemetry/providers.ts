import {
  type Counter,
  createNoopMeter,
  type Histogram,
  isSpanContextValid,
  type Meter,
  type MeterProvider,
  metrics,
  ProxyTracerProvider,
  type SpanContext,
  TraceFlags,
  type Tracer,
  type TracerProvider,
  trace,
  type UpDownCounter,
} from '@opentelemetry/api';
import type { TelemetryOptions } from '../values/options.ts';

/** Name of the instrumentation. */
const SCOPE = '@taskmaster/client';

/** What records now. At least one of them is there. */
export interface Recorders {
  readonly tracer: Tracer | undefined;
  readonly instruments: Instruments | undefined;
}

interface Instruments {
  /** In s, of enqueues, leases and settlements. */
  readonly operationDuration: Histogram;
  /** In s, of handlers. */
  readonly processDuration: Histogram;
  readonly sent: Counter;
  readonly consumed: Counter;
  /** Tasks whose handlers run. */
  readonly running: UpDownCounter;
}

/** The boundaries that the conventions ask for, in s. */
const DURATIONS = {
  explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
};

/**
 * Finds out whether an SDK records: one that is registered, now or later, or the providers of the options. Without one, `now`
 * is a few comparisons.
 */
export class Providers {
  readonly #options: TelemetryOptions;
  #tracers: TracerProvider | undefined;
  #meters: MeterProvider | undefined;
  #now: Recorders | undefined;

  constructor(options: TelemetryOptions) {
    this.#options = options;
  }

  /** Undefined: nothing records. */
  get now(): Recorders | undefined {
    const tracers = registered(this.#options.tracerProvider ?? trace.getTracerProvider());
    const meters = this.#options.meterProvider ?? metrics.getMeterProvider();
    if (tracers === this.#tracers && meters === this.#meters) return this.#now;
    this.#tracers = tracers;
    this.#meters = meters;
    const tracer = tracers?.getTracer(SCOPE);
    const instruments = instrumentsOf(meters.getMeter(SCOPE));
    this.#now = tracer === undefined && instruments === undefined ? undefined : { tracer, instruments };
    return this.#now;
  }

  /** For instruments of others. Without an SDK theirs record nothing; once one is registered, it is another meter. */
  get meter(): Meter {
    return (this.#options.meterProvider ?? metrics.getMeterProvider()).getMeter(SCOPE);
  }

  /** The span that is active, in the format of W3C, for logs of nodes. */
  get traceparent(): string | undefined {
    return this.now?.tracer && traceparentOf(trace.getActiveSpan()?.spanContext());
  }
}

/** A span in the format of W3C Trace Context. Undefined: there is none. */
export const traceparentOf = (span: SpanContext | undefined): string | undefined =>
  span !== undefined && isSpanContextValid(span)
    ? `00-${span.traceId}-${span.spanId}-${(span.traceFlags & TraceFlags.SAMPLED).toString().padStart(2, '0')}`
    : undefined;

/** Until an SDK is registered, the API hands out a provider that stands for it. */
const registered = (tracers: TracerProvider): TracerProvider | undefined =>
  tracers instanceof ProxyTracerProvider && tracers.getDelegateTracer(SCOPE) === undefined ? undefined : tracers;

function instrumentsOf(meter: Meter): Instruments | undefined {
  // The one that the API hands out without an SDK.
  if (meter === createNoopMeter()) return undefined;
  const seconds = { unit: 's', advice: DURATIONS };
  return {
    operationDuration: meter.createHistogram('messaging.client.operation.duration', {
      description: 'Duration of enqueues, leases with tasks, and settlements.',
      ...seconds,
    }),
    processDuration: meter.createHistogram('messaging.process.duration', {
      description: 'Duration of calls of handlers.',
      ...seconds,
    }),
    sent: meter.createCounter('messaging.client.sent.messages', {
      description: 'Tasks that the client tried to enqueue or to publish.',
      unit: '{message}',
    }),
    consumed: meter.createCounter('messaging.client.consumed.messages', {
      description: 'Tasks that the client leased.',
      unit: '{message}',
    }),
    running: meter.createUpDownCounter('taskmaster.client.running_tasks', {
      description: 'Tasks whose handlers run.',
      unit: '{task}',
    }),
  };
}
