import { isSpanContextValid, trace } from '@opentelemetry/api';
import { type Pid, pidText } from '../values/pid.ts';
import { spanOf } from './task-context.ts';

/** What lines of a log say of a task, to find them and their trace. */
export interface TaskLogFields {
  readonly task: { readonly queue: string; readonly pid: string; readonly attempt: number; readonly lease: number };
  /** As the instrumentations of OpenTelemetry for logs write them. Left out: the task has no trace. */
  readonly trace_id?: string;
  readonly span_id?: string;
}

/**
 * Fields of a task for a log, such as `log.child(taskLogFields(task))` of pino: which task it is, which attempt, the token of its
 * lease, and its trace. In a handler the span is that of the handler, and otherwise the one that has enqueued the task.
 */
export function taskLogFields(task: {
  readonly queue: string;
  readonly pid: Pid;
  readonly attempt: number;
  readonly leaseToken: number;
  readonly headers: Readonly<Record<string, string>>;
}): TaskLogFields {
  const { queue, pid, attempt, leaseToken: lease, headers } = task;
  const fields = { task: { queue, pid: pidText(pid), attempt, lease } };
  const span = trace.getActiveSpan()?.spanContext() ?? spanOf(headers);
  if (span === undefined || !isSpanContextValid(span)) return fields;
  return { ...fields, trace_id: span.traceId, span_id: span.spanId };
}
