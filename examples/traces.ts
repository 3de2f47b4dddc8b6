/**
 * One trace over two stages of work, an attempt that fails among them. The spans go to the console instead of a collector.
 * Needs a node: `npm start`.
 *
 *     npm run example traces [host:port]
 */
import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { connect, taskLogFields } from '@taskmaster/client';

// The SDK is the program's own. With @opentelemetry/sdk-node all of this is one call, in a file that is loaded first.
const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());

// The client finds it. There is nothing to configure.
await using client = await connect(process.argv[2] ?? '127.0.0.1:7400');
const scans = client.queue<string>('traced#scan');
const texts = client.queue<string>('traced#read');

const { promise: done, resolve } = Promise.withResolvers<void>();
await using scanner = client.worker(scans, async (task) => {
  if (task.attempt === 1) throw new Error('paper jam');
  // A span of the program is a child of the one of the handler.
  await trace.getTracer('example').startActiveSpan('look at the page', async (span) => span.end());
  return { enqueue: [texts.task(`text of ${task.data}`)] };
});
await using reader = client.worker(
  texts,
  (task) => {
    // A log of the program has the trace of the task: log.info(taskLogFields(task), 'read').
    const { task: named, trace_id } = taskLogFields(task);
    console.log(`reading a task of ${named.queue}, in a trace: ${trace_id !== undefined}`);
  },
  { onTaskCompleted: () => resolve() },
);
scanner.start();
reader.start();
await scans.enqueue('page 1', { retry: { backoff: { initial: '100ms' } } });
await done;
await Promise.all([scanner.stop(), reader.stop()]);

const spans = exporter.getFinishedSpans();
const first = spans.find(({ name }) => name === 'enqueue traced#scan');
const inTrace = spans.filter((span) => span.spanContext().traceId === first?.spanContext().traceId);
if (first !== undefined) show(first, '');

/** Prints a span, and below it those that it has caused, in the order in which they began. */
function show(span: ReadableSpan, indent: string): void {
  const attempt = span.attributes['messaging.taskmaster.attempt'];
  const failed = span.status.code === SpanStatusCode.ERROR ? `, failed: ${span.status.message}` : '';
  console.log(`${indent}${span.name}${attempt === undefined ? '' : `, attempt ${attempt}`}${failed}`);
  const caused = inTrace.filter(({ parentSpanContext }) => parentSpanContext?.spanId === span.spanContext().spanId);
  for (const child of caused) show(child, `${indent}  `);
}
