import { context, propagation, SpanKind, type TextMapPropagator, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { type DataPoint, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

/** Spans that have ended, in memory. */
export class RecordedSpans {
  readonly provider: TracerProvider;
  readonly #exporter = new InMemorySpanExporter();

  constructor() {
    this.provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: this.#exporter })] });
  }

  get all(): readonly ReadableSpan[] {
    return this.#exporter.getFinishedSpans();
  }

  get names(): readonly string[] {
    return this.all.map(({ name }) => name);
  }

  named(name: string): readonly ReadableSpan[] {
    return this.all.filter((span) => span.name === name);
  }

  /** The only span with this name. */
  one(name: string): ReadableSpan {
    const [span, ...more] = this.named(name);
    if (span === undefined || more.length > 0)
      throw new Error(`${1 + more.length} of ${this.names.join(', ')}: ${name}`);
    return span;
  }

  /** The names from the first span of a trace to this one. */
  pathTo(span: ReadableSpan): readonly string[] {
    const parent = this.all.find((one) => isSpan(span.parentSpanContext, one));
    return [...(parent === undefined ? [] : this.pathTo(parent)), span.name];
  }
}

/** Whether a context, of a parent or of a link, is that of the span. */
export const isSpan = (
  named: { readonly traceId: string; readonly spanId: string } | undefined,
  span: ReadableSpan,
): boolean => {
  const { traceId, spanId } = span.spanContext();
  return named?.traceId === traceId && named.spanId === spanId;
};

/** What a reader of metrics sees. */
export class RecordedMetrics {
  readonly #reader = new ManualReader();
  readonly provider = new MeterProvider({ readers: [this.#reader] });

  async points(name: string): Promise<readonly DataPoint<unknown>[]> {
    const { resourceMetrics } = await this.#reader.collect();
    const found = resourceMetrics.scopeMetrics
      .flatMap(({ metrics }) => metrics)
      .filter(({ descriptor }) => descriptor.name === name);
    return found.flatMap(({ dataPoints }): readonly DataPoint<unknown>[] => dataPoints);
  }
}

class ManualReader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

/** Registers an SDK, as a program of a user does. It is gone when this is disposed of. */
export function registeredSdk(
  propagator: TextMapPropagator = new W3CTraceContextPropagator(),
): RecordedSpans & Disposable {
  const spans = new RecordedSpans();
  trace.setGlobalTracerProvider(spans.provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(propagator);
  return Object.assign(spans, {
    [Symbol.dispose](): void {
      trace.disable();
      context.disable();
      propagation.disable();
    },
  });
}

export { SpanKind };
