import {
  type Attributes,
  type Context,
  context,
  type Link,
  type Meter,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import {
  EnqueueMode,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  limits,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import type { RetryingCalls } from '../calls/retrying-calls.ts';
import type { UpdateJoiner } from '../calls/update-joiner.ts';
import type { Lease } from '../leases/lease.ts';
import { updateSizeBound } from '../transport/request-size.ts';
import { assertTelemetry, type CallOptions, type TelemetryOptions, type UpdateOptions } from '../values/options.ts';
import { type Pid, pidText } from '../values/pid.ts';
import {
  DEAD_LETTER_QUEUE,
  Destinations,
  errorType,
  isMarker,
  MESSAGE_ID,
  type Operation,
  type OperationTasks,
  RELEASE_REASON,
  type ReleaseReason,
  spanAttributes,
  spanName,
  TASK_COUNT,
  type TaskFacts,
  taskAttributes,
} from './conventions.ts';
import { Providers, type Recorders, traceparentOf } from './providers.ts';
import { callIn, contextOf, inject, spanOf, working } from './task-context.ts';

/** A task as handlers get it. */
interface WorkedTask {
  readonly queue: string;
  readonly pid: Pid;
  readonly headers: Readonly<Record<string, string>>;
  readonly attempt: number;
  readonly bytes: Uint8Array;
}

/** What a triggered schedule has enqueued. */
interface Triggered {
  readonly queue: string;
  readonly pid: Pid;
}

export interface TelemetryParts {
  readonly updates: UpdateJoiner;
  readonly calls: RetryingCalls;
  /** Label of the client. */
  readonly clientId: string;
  /** Undefined: nothing is recorded. */
  readonly providers: Providers | undefined;
  /** The span of a wait for tasks goes on over requests that get none, until `endWait`. Default: each request has its own. */
  readonly keepsWait?: boolean;
  /** Default: own ones. */
  readonly destinations?: Destinations;
}

const NONE: readonly never[] = [];
const NO_PID: Pid = new Uint8Array(0);
/** SDKs keep so many links of a span. */
const MOST_LINKS = 128;

/**
 * Spans and metrics of a client. Its calls go through here: updates by `send`, leases by `lease`, handlers by `handler`. Without
 * an SDK that records they are passed on as they are.
 *
 * The span of an enqueue is the parent of the span of the handler, and that is the parent of the completion and of what it
 * enqueues. So one trace has all stages of a pipeline, and all attempts. Only a call of a handler with several tasks has a trace
 * of its own, which links to those of its tasks; what the handler returns for a task goes on in the trace of the task.
 */
export class Telemetry {
  readonly #parts: TelemetryParts;
  readonly #providers: Providers | undefined;
  readonly #destinations: Destinations;
  /** Of tasks whose handlers have ended: where they are settled. */
  readonly #settling = new WeakMap<object, Context>();
  /** Of a worker: that of its wait for tasks. */
  #wait: Span | undefined;

  constructor(parts: TelemetryParts) {
    this.#parts = parts;
    this.#providers = parts.providers;
    this.#destinations = parts.destinations ?? new Destinations();
  }

  /** For a worker, which may have options of its own. @throws TypeError */
  ofWorker(options: TelemetryOptions | false | undefined): Telemetry {
    const parts = { ...this.#parts, keepsWait: true };
    if (options === undefined) return new Telemetry({ ...parts, destinations: this.#destinations });
    assertTelemetry(options);
    return new Telemetry({ ...parts, providers: options === false ? undefined : new Providers(options) });
  }

  /**
   * Applies an update, as `UpdateJoiner.send` does.
   * @param completed the leases of tasks that it completes, as far as they are known here.
   * @param released likewise, of tasks that it releases.
   */
  send(
    update: UpdateTasksRequest,
    options: UpdateOptions,
    completed: readonly Lease[] = NONE,
    released: readonly Lease[] = NONE,
  ): Promise<UpdateTasksResponse> {
    const now = this.#providers?.now;
    if (now === undefined) return this.#parts.updates.send(update, options);
    return this.#send(now, update, options, completed, released);
  }

  /** Leases tasks, as `RetryingCalls.lease` does. */
  lease(request: LeaseTasksRequest, options: CallOptions): Promise<LeaseTasksResponse> {
    const now = this.#providers?.now;
    const { calls } = this.#parts;
    return now === undefined ? calls.lease(request, options) : this.#lease(now, request, options);
  }

  /** A worker waits for no more tasks. */
  endWait(): void {
    this.#wait?.setAttribute(TASK_COUNT, 0).end();
    this.#wait = undefined;
  }

  /** A call that triggers a schedule, which enqueues a task. */
  trigger<R extends Triggered>(call: () => Promise<R>): Promise<R> {
    const now = this.#providers?.now;
    return now === undefined ? call() : this.#trigger(now, call);
  }

  /** A handler of tasks, or of lists of tasks, whose calls are recorded and that runs in the context of its span. */
  handler<Given extends WorkedTask | readonly WorkedTask[], Call, R>(
    handler: (given: Given, call: Call) => R | Promise<R>,
  ): (given: Given, call: Call) => R | Promise<R> {
    const providers = this.#providers;
    if (providers === undefined) return handler;
    return (given, call) => {
      const { now } = providers;
      return now === undefined ? handler(given, call) : this.#process(now, given, () => handler(given, call));
    };
  }

  /** For instruments of the outbox. Undefined: nothing is to be recorded. */
  get meter(): Meter | undefined {
    return this.#providers?.meter;
  }

  /** Settles a task in the context of its handler. Undefined: it has none. */
  within(task: object): (<R>(settle: () => R) => R) | undefined {
    const own = this.#settling.get(task);
    return own && ((settle) => context.with(own, settle));
  }

  /** Does work that goes on after the span that is active now. */
  apart<R>(work: () => R): R {
    return this.#providers === undefined ? work() : context.with(trace.deleteSpan(context.active()), work);
  }

  async #send(
    now: Recorders,
    update: UpdateTasksRequest,
    options: UpdateOptions,
    completed: readonly Lease[],
    released: readonly Lease[],
  ): Promise<UpdateTasksResponse> {
    const { updates } = this.#parts;
    const active = context.active();
    const [lease] = completed.length > 0 ? completed : released;
    // What a program settles outside of a handler belongs to the trace of the task.
    const parent = trace.getSpan(active) === undefined && lease !== undefined ? ofTask(lease) : active;
    const begun = [
      this.#beginSettling(now, parent, completionsOf(update), completed),
      this.#beginSettling(now, parent, releasesOf(update), released),
      this.#beginSending(now, parent, update),
    ].filter((one) => one !== undefined);
    update.traceparent = traceparentOf((begun[0]?.span ?? trace.getSpan(parent))?.spanContext());
    try {
      const reply = await updates.send(update, options);
      for (const one of begun) one.end(reply);
      return reply;
    } catch (error) {
      for (const one of begun) one.fail(error);
      throw error;
    }
  }

  #beginSending(now: Recorders, parent: Context, update: UpdateTasksRequest): Begun | undefined {
    const items = update.enqueue.filter((item) => item.mode !== EnqueueMode.ENQUEUE_MODE_SIGNAL && !isMarker(item));
    const [first] = items;
    if (first === undefined) return undefined;
    const operation = first.topic === '' ? 'enqueue' : 'publish';
    const tasks = tasksOf(
      operation,
      items.map(({ queue, topic }) => topic || queue),
    );
    const one = items.length === 1 ? { pid: first.pid, bytes: first.data } : undefined;
    const span = this.#startSpan(now, parent, tasks, SpanKind.PRODUCER, one, []);
    if (span !== undefined) {
      const room = limits.requestBytes - updateSizeBound(update);
      for (const given of inject(trace.setSpan(parent, span), items, room)) span.addLink({ context: given });
    }
    return this.#begun(now, tasks, span, {
      ended: ({ enqueued }) => {
        now.instruments?.sent.add(items.length, this.#destinations.attributes(operation, tasks.destination, undefined));
        const pid = one?.pid.byteLength === 0 ? enqueued[update.enqueue.indexOf(first)]?.pid : undefined;
        if (pid !== undefined && pid.byteLength > 0) span?.setAttribute(MESSAGE_ID, pidText(pid));
      },
      failed: (error) =>
        now.instruments?.sent.add(items.length, this.#destinations.attributes(operation, tasks.destination, error)),
    });
  }

  #beginSettling(
    now: Recorders,
    parent: Context,
    { operation, items, reason }: Settlement,
    leases: readonly Lease[],
  ): Begun | undefined {
    const [first] = items;
    if (first === undefined) return undefined;
    const tasks = tasksOf(
      operation,
      items.map(({ queue }) => queue),
    );
    const [lease] = leases;
    const one = items.length === 1 ? { pid: first.pid, attempt: lease?.attempt } : undefined;
    const links = leases.slice(0, MOST_LINKS).flatMap((each) => linkTo(each.headers, each, one === undefined));
    const call = callIn(parent);
    if (call !== undefined) links.push({ context: call });
    const span = this.#startSpan(now, parent, tasks, SpanKind.CLIENT, one, links);
    if (reason !== undefined) span?.setAttribute(RELEASE_REASON, reason);
    return this.#begun(now, tasks, span, {
      ended: ({ released }) => {
        const queue = operation === 'complete' ? '' : (released[0]?.deadLetterQueue ?? '');
        if (queue !== '') span?.setAttribute(DEAD_LETTER_QUEUE, queue);
      },
    });
  }

  async #lease(now: Recorders, request: LeaseTasksRequest, options: CallOptions): Promise<LeaseTasksResponse> {
    const { calls, keepsWait } = this.#parts;
    const begun = performance.now();
    // How many it gets is known at the end.
    const asked = { ...tasksOf('lease', request.patterns.length === 0 ? request.queues : []), count: 1 };
    const span = this.#wait ?? this.#startSpan(now, context.active(), asked, SpanKind.CLIENT, undefined, []);
    this.#wait = undefined;
    const traceparent = traceparentOf(span?.spanContext());
    const gotNone = (): void => {
      if (keepsWait) this.#wait = span;
      else span?.setAttribute(TASK_COUNT, 0).end();
    };
    try {
      const reply = await calls.lease(traceparent === undefined ? request : { ...request, traceparent }, options);
      if (reply.tasks.length === 0) gotNone();
      else this.#leased(now, reply, span, begun);
      return reply;
    } catch (error) {
      if (options.signal?.aborted) gotNone();
      else this.#begun(now, asked, span?.setAttribute(TASK_COUNT, 0), {}, begun).fail(error);
      throw error;
    }
  }

  #leased(now: Recorders, { tasks: leased }: LeaseTasksResponse, span: Span | undefined, begun: number): void {
    const tasks = tasksOf(
      'lease',
      leased.map(({ queue }) => queue),
    );
    if (span !== undefined) {
      const [first] = leased;
      const one = leased.length === 1 && first !== undefined ? factsOf(first) : undefined;
      span.updateName(spanName(tasks)).setAttributes(spanAttributes(tasks, this.#parts.clientId, one));
      for (const task of leased.slice(0, MOST_LINKS)) span.addLinks(linkTo(task.headers, task, one === undefined));
    }
    this.#begun(now, tasks, span, {}, begun).end(undefined);
    for (const [queue, count] of countsOf(leased)) {
      now.instruments?.consumed.add(count, this.#destinations.attributes('lease', queue, undefined));
    }
  }

  async #trigger<R extends Triggered>(now: Recorders, call: () => Promise<R>): Promise<R> {
    const active = context.active();
    const startTime = Date.now();
    const begun = performance.now();
    const end = (queues: readonly string[], pid: Pid, error: unknown): void => {
      // Only the reply names the queue.
      const tasks = { ...tasksOf('trigger', queues), count: 1 };
      const span = this.#startSpan(now, active, tasks, SpanKind.PRODUCER, { pid }, [], startTime);
      now.instruments?.sent.add(1, this.#destinations.attributes('trigger', tasks.destination, error));
      const one = this.#begun(now, tasks, span, {}, begun);
      if (error === undefined) one.end(undefined);
      else one.fail(error);
    };
    try {
      const reply = await call();
      end([reply.queue], reply.pid, undefined);
      return reply;
    } catch (error) {
      end([], NO_PID, error);
      throw error;
    }
  }

  async #process<R>(
    now: Recorders,
    given: WorkedTask | readonly WorkedTask[],
    handle: () => R | Promise<R>,
  ): Promise<R> {
    const isBatch = isList(given);
    const list = isBatch ? given : [given];
    const [first] = list;
    if (first === undefined) return handle();
    const tasks = tasksOf(
      'process',
      list.map(({ queue }) => queue),
    );
    const one = isBatch ? undefined : factsOf(first);
    const parent = isBatch ? trace.deleteSpan(context.active()) : contextOf(first.headers);
    const links = list.slice(0, MOST_LINKS).flatMap((task) => linkTo(task.headers, task, isBatch));
    const span = this.#startSpan(now, parent, tasks, SpanKind.CONSUMER, one, links);
    if (isBatch) span?.setAttribute(TASK_COUNT, list.length);
    const within = span === undefined ? context.active() : trace.setSpan(parent, span);
    const begun = performance.now();
    const running = this.#destinations.attributes('process', tasks.destination, undefined);
    now.instruments?.running.add(list.length, running);
    let failed: unknown;
    try {
      return await context.with(isBatch ? within : working(within, first.headers), handle);
    } catch (error) {
      failed = error ?? new Error(String(error));
      throw error;
    } finally {
      now.instruments?.running.add(-list.length, running);
      const attributes = this.#destinations.attributes('process', tasks.destination, failed);
      now.instruments?.processDuration.record((performance.now() - begun) / 1000, attributes);
      if (span !== undefined) {
        if (failed instanceof Error) span.recordException(failed);
        endSpan(span, failed);
        for (const task of list)
          this.#settling.set(task, isBatch ? ofBatch(task, span) : working(within, task.headers));
      }
    }
  }

  #startSpan(
    { tracer }: Recorders,
    parent: Context,
    tasks: OperationTasks,
    kind: SpanKind,
    one: TaskFacts | undefined,
    links: Link[],
    startTime?: number,
  ): Span | undefined {
    if (tracer === undefined) return undefined;
    const attributes = spanAttributes(tasks, this.#parts.clientId, one);
    return tracer.startSpan(spanName(tasks), { kind, attributes, links, startTime }, parent);
  }

  #begun(
    now: Recorders,
    { operation, destination }: OperationTasks,
    span: Span | undefined,
    {
      ended,
      failed,
    }: {
      readonly ended?: (reply: UpdateTasksResponse) => void;
      readonly failed?: (error: unknown) => void;
    },
    begun = performance.now(),
  ): Begun {
    const over = (error: unknown): void => {
      const attributes: Attributes = this.#destinations.attributes(operation, destination, error);
      now.instruments?.operationDuration.record((performance.now() - begun) / 1000, attributes);
      if (span !== undefined) endSpan(span, error);
    };
    return {
      span,
      end(reply) {
        if (reply !== undefined) ended?.(reply);
        over(undefined);
      },
      fail(error) {
        failed?.(error);
        over(error);
      },
    };
  }
}

/** An operation whose call is on its way. */
interface Begun {
  readonly span: Span | undefined;
  readonly end: (reply: UpdateTasksResponse | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** Tasks that an update completes or releases. */
interface Settlement {
  readonly operation: Operation;
  readonly items: readonly { readonly queue: string; readonly pid: Pid }[];
  /** Undefined: they are completed. */
  readonly reason: ReleaseReason | undefined;
}

/** Without the tasks that are removed, cancelled or put back without a lease. */
function completionsOf({ dequeue }: UpdateTasksRequest): Settlement {
  const items = dequeue.filter(({ leaseToken, requeue }) => leaseToken > 0 && !requeue);
  return { operation: 'complete', items, reason: undefined };
}

/** Without those that are only rescheduled. */
function releasesOf({ release }: UpdateTasksRequest): Settlement {
  const items = release.filter(({ waiting }) => !waiting);
  const [first] = items;
  if (first?.deadLetter) return { operation: 'dead_letter', items, reason: 'failed' };
  return { operation: 'release', items, reason: first && reasonOf(first) };
}

function reasonOf(item: UpdateTasksRequest['release'][number]): ReleaseReason {
  if (item.interrupted) return 'interrupted';
  if (item.refundAttempt) return (item.delayMs ?? 0) > 0 || item.runAtUnixMs > 0 ? 'snoozed' : 'given_back';
  return item.error === undefined ? 'released' : 'failed';
}

function tasksOf(operation: Operation, queues: readonly string[]): OperationTasks {
  const [first] = queues;
  const destination = queues.every((queue) => queue === first) ? first : undefined;
  return { operation, count: queues.length, destination };
}

function countsOf(tasks: readonly { readonly queue: string }[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { queue } of tasks) counts.set(queue, (counts.get(queue) ?? 0) + 1);
  return counts;
}

const factsOf = ({ pid, attempt, ...rest }: TaskFacts & { readonly data?: Uint8Array }): TaskFacts => ({
  pid,
  attempt,
  bytes: rest.bytes ?? rest.data,
});

/** A link to the span that has enqueued a task. None: its headers name none. */
function linkTo(headers: Readonly<Record<string, string>>, task: TaskFacts, isOneOfMany: boolean): Link[] {
  const span = spanOf(headers);
  if (span === undefined) return [];
  const { pid, attempt } = task;
  return [isOneOfMany ? { context: span, attributes: taskAttributes({ pid, attempt }) } : { context: span }];
}

/** Where a task of a batch is settled. */
const ofBatch = ({ headers }: WorkedTask, call: Span): Context =>
  working(contextOf(headers), headers, call.spanContext());

const ofTask = ({ headers }: Lease): Context => working(contextOf(headers), headers);

function endSpan(span: Span, failed: unknown): void {
  if (failed !== undefined) {
    span.setAttribute('error.type', errorType(failed));
    span.setStatus({ code: SpanStatusCode.ERROR, message: failed instanceof Error ? failed.message : String(failed) });
  }
  span.end();
}

const isList = <T>(given: T | readonly T[]): given is readonly T[] => Array.isArray(given);
