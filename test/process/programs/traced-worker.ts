import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { connect, taskLogFields } from '@taskmaster/client';

// A worker with an SDK. The first attempt at a task never ends. Each attempt is a line with the fields for logs.
const [, , endpoint = '', queue = ''] = process.argv;

trace.setGlobalTracerProvider(new TracerProvider());
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());

const client = await connect(endpoint);
const worker = client.worker(
  queue,
  (task) => {
    console.log(JSON.stringify(taskLogFields(task)));
    return task.attempt === 1 ? new Promise(() => {}) : undefined;
  },
  { leaseDuration: '1s' },
);
worker.start();
