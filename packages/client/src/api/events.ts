import { status } from '@grpc/grpc-js';
import { EventKind, methods, type ReadEventsRequest, type Event as WireEvent } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { queuesPattern } from '../tasks/new-task.ts';
import { sleep } from '../transport/timing.ts';
import { asTaskMasterError } from '../transport/wire-errors.ts';
import { cancelled, type TaskMasterError } from '../values/errors.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, callNames } from '../values/options.ts';
import { type Pid, type PidLike, pidBytes, pidText } from '../values/pid.ts';

/** Length of one request. After that the client asks again, so that it notices a node that does not answer. */
const POLL_MS = 30_000;
const RETRY_MS = 1_000;

const kinds = {
  missed: EventKind.EVENT_KIND_MISSED,
  enqueued: EventKind.EVENT_KIND_ENQUEUED,
  changed: EventKind.EVENT_KIND_CHANGED,
  leased: EventKind.EVENT_KIND_LEASED,
  progressed: EventKind.EVENT_KIND_PROGRESSED,
  failed: EventKind.EVENT_KIND_FAILED,
  released: EventKind.EVENT_KIND_RELEASED,
  'cancel-requested': EventKind.EVENT_KIND_CANCEL_REQUESTED,
  completed: EventKind.EVENT_KIND_COMPLETED,
  'dead-lettered': EventKind.EVENT_KIND_DEAD_LETTERED,
  cancelled: EventKind.EVENT_KIND_CANCELLED,
  removed: EventKind.EVENT_KIND_REMOVED,
  moved: EventKind.EVENT_KIND_MOVED,
  'queue-deleted': EventKind.EVENT_KIND_QUEUE_DELETED,
  paused: EventKind.EVENT_KIND_PAUSED,
  resumed: EventKind.EVENT_KIND_RESUMED,
  'limit-reached': EventKind.EVENT_KIND_LIMIT_REACHED,
} as const;

/**
 * What an event says. A task ends with exactly one of `completed`, `dead-lettered`, `cancelled` and `removed`, or with its queue:
 * `queue-deleted`. `moved`: it was put back from a dead-letter queue, or has another PID. `missed`: events before may be missing.
 */
export type QueueEventKind = keyof typeof kinds;

export const queueEventKinds = Object.keys(kinds) as readonly QueueEventKind[];
const kindNames = new Map<EventKind, QueueEventKind>(queueEventKinds.map((name) => [kinds[name], name]));

/** Something that has happened in queues. */
export interface QueueEvent {
  readonly kind: QueueEventKind;
  /** Where it stands among the events of its group. `after` of a later call continues behind it. */
  readonly position: string;
  /** When, by the clock of the node. Undefined for `missed`. */
  readonly at: Date | undefined;
  /** The queue. Of a pause or a limit: `group#pattern`. Empty for `missed`. */
  readonly queue: string;
  /** The task. Undefined: the event is not about one task. */
  readonly pid: Pid | undefined;
  /** The text of the PID, as the command line writes and reads it. Undefined: the event is not about one task. */
  readonly id: string | undefined;
  /** The key of the task. Undefined: it has none. */
  readonly key: string | undefined;
  /** Number of attempts of the task, with the one that has begun or ended. */
  readonly attempts: number;
  /** The label of the worker that has the task, or had it until this event; of a pause who made it. Undefined: none. */
  readonly worker: string | undefined;
  /**
   * The progress, the message of the error, the reason of a cancellation or pause, or the limit key. Of `enqueued`: the beginning
   * of the data, if the node is one for development. Undefined: none.
   */
  readonly text: string | undefined;
  /** Where the task is now that was `dead-lettered` or `moved`. */
  readonly movedTo: { readonly queue: string; readonly pid: Pid } | undefined;
  /** How many tasks a deleted queue had. */
  readonly tasks: number | undefined;
}

export interface EventsOptions {
  /** Only these kinds, and `missed`. Default: all. */
  readonly kinds?: readonly QueueEventKind[] | undefined;
  /** Only events of the task with this PID, and the deletion of its queue. */
  readonly pid?: PidLike | undefined;
  /** Only events of the task with this key, and the deletion of its queue. */
  readonly key?: string | undefined;
  /** The position of an earlier event, or of `eventPosition`, or `oldest`: all that is kept. Default: from now on. */
  readonly after?: string | undefined;
  /** False: ends when no event is left. Default: waits for further events. */
  readonly follow?: boolean | undefined;
  /** Ends the wait, which rejects with `CancelledError`. */
  readonly signal?: AbortSignal | undefined;
}

const eventsNames: OptionNames<EventsOptions> = {
  kinds: true,
  pid: true,
  key: true,
  after: true,
  follow: true,
  signal: true,
};

/** See `TaskMasterClient.events`. */
export function readEvents(
  context: ClientContext,
  queues: string,
  options: EventsOptions,
): AsyncGenerator<QueueEvent, void> {
  assertKnown('events', options, eventsNames);
  return pages(context, requestOf(queues, options), options);
}

/** See `TaskMasterClient.eventPosition`. */
export async function eventPosition(context: ClientContext, queues: string, options: CallOptions): Promise<string> {
  assertKnown('eventPosition', options, callNames);
  return (await context.calls.poll(methods.readEvents, requestOf(queues, {}), options)).position;
}

async function* pages(
  context: ClientContext,
  request: ReadEventsRequest,
  { follow = true, signal }: EventsOptions,
): AsyncGenerator<QueueEvent, void> {
  const read = (waitMs: number, after: string) => goingOn(context, { ...request, waitMs, after }, signal);
  // Without a wait, so that the start is known before anything can break.
  let { after } = request;
  if (after === '') after = (await read(0, '')).position;
  for (;;) {
    const { events, position } = await read(follow ? POLL_MS : 0, after);
    for (const event of events) {
      const kind = kindNames.get(event.kind);
      // A newer node may tell of more.
      if (kind !== undefined) yield eventOf(kind, event);
    }
    if (position !== '') after = position;
    if (!follow && events.length === 0) return;
  }
}

/** Reads events. It does not give up while no node answers, because the position stays valid. */
async function goingOn({ calls, timing }: ClientContext, request: ReadEventsRequest, signal: AbortSignal | undefined) {
  for (;;) {
    try {
      return await calls.poll(methods.readEvents, request, { signal });
    } catch (thrown) {
      const error = asTaskMasterError(thrown);
      if (signal?.aborted || !isWorthRepeating(error)) throw error;
      await sleep(timing, RETRY_MS, signal).catch(() => {
        throw cancelled(signal, error);
      });
    }
  }
}

const isWorthRepeating = ({ code, retryable }: TaskMasterError): boolean =>
  retryable || code === status.DEADLINE_EXCEEDED;

function requestOf(queues: string, options: Pick<EventsOptions, 'kinds' | 'pid' | 'key' | 'after'>): ReadEventsRequest {
  const { pid, key, after = '' } = options;
  if (pid !== undefined && key !== undefined) throw new TypeError('events: give pid or key, not both');
  if (options.kinds !== undefined && !(Array.isArray(options.kinds) && options.kinds.length > 0))
    throw new TypeError('kinds: must be a list of at least one kind');
  return {
    queues: queuesPattern(queues),
    after,
    kinds: (options.kinds ?? []).map(kindOf),
    task: taskOf(pid, key),
    maxEvents: 0,
    waitMs: 0,
  };
}

function taskOf(pid: PidLike | undefined, key: string | undefined): ReadEventsRequest['task'] {
  if (pid !== undefined) return { $case: 'pid', value: pidBytes(pid) };
  return key === undefined ? undefined : { $case: 'key', value: key };
}

function kindOf(name: QueueEventKind): EventKind {
  if (Object.hasOwn(kinds, name)) return kinds[name];
  throw new TypeError(`kinds: '${String(name)}' is none of ${queueEventKinds.join(', ')}`);
}

function eventOf(kind: QueueEventKind, event: WireEvent): QueueEvent {
  const { position, atUnixMs, queue, pid, key, attempts, worker, text, toQueue, toPid, tasks } = event;
  return {
    kind,
    position,
    at: atUnixMs === 0 ? undefined : new Date(atUnixMs),
    queue,
    pid: pid.byteLength === 0 ? undefined : pid,
    id: pid.byteLength === 0 ? undefined : pidText(pid),
    key: key || undefined,
    attempts,
    worker: worker || undefined,
    text: text || undefined,
    movedTo: toQueue === '' ? undefined : { queue: toQueue, pid: toPid },
    tasks: kind === 'queue-deleted' ? tasks : undefined,
  };
}
