import type { Attributes } from '@opentelemetry/api';
import { parseQueueName } from '@taskmaster/proto';
import { isTaskMasterError } from '../values/errors.ts';
import { type Pid, pidText } from '../values/pid.ts';

// The messaging conventions of OpenTelemetry, which are still in development: all their names are here and in providers.ts.

/** What a client does, by its name here, and what the conventions call it. */
const OPERATIONS = {
  enqueue: 'send',
  publish: 'send',
  trigger: 'send',
  lease: 'receive',
  process: 'process',
  complete: 'settle',
  release: 'settle',
  dead_letter: 'settle',
} as const;
export type Operation = keyof typeof OPERATIONS;

/** Why a task was released. `failed`: its attempt has failed, and counts. `given_back`: no handler has begun. */
export type ReleaseReason = 'failed' | 'released' | 'snoozed' | 'given_back' | 'interrupted';

/** Name of the queue in which the relays of outboxes keep what they remember, in each group that they send to. */
export const OUTBOX_MARKERS = 'taskmaster-outbox';

/** Whether a task is such a note of a relay, which no program counts among its tasks. */
export const isMarker = ({ queue }: { readonly queue: string }): boolean =>
  queue.endsWith(OUTBOX_MARKERS) && parseQueueName(queue).name === OUTBOX_MARKERS;

/** Tasks of one operation. */
export interface OperationTasks {
  readonly operation: Operation;
  /** Number of tasks. */
  readonly count: number;
  /** The queue or topic of all of them. Undefined: there are several. */
  readonly destination: string | undefined;
}

/** `complete shop#mail`. */
export const spanName = ({ operation, destination }: OperationTasks): string =>
  destination === undefined ? operation : `${operation} ${destination}`;

/** Attributes of spans and metrics, without the destination. */
const operationAttributes = (operation: Operation): Attributes => ({
  'messaging.system': 'taskmaster',
  'messaging.operation.name': operation,
  'messaging.operation.type': OPERATIONS[operation],
});

/** Attributes of a span. `one`: of the task, if it is the only one. */
export function spanAttributes(tasks: OperationTasks, clientId: string, one: TaskFacts | undefined): Attributes {
  const attributes = operationAttributes(tasks.operation);
  if (tasks.destination !== undefined) attributes['messaging.destination.name'] = tasks.destination;
  if (clientId !== '') attributes['messaging.client.id'] = clientId;
  if (tasks.count !== 1) attributes[TASK_COUNT] = tasks.count;
  return one === undefined ? attributes : Object.assign(attributes, taskAttributes(one));
}

/** What is known of one task. */
export interface TaskFacts {
  readonly pid: Pid;
  /** Undefined: it was not leased. */
  readonly attempt?: number | undefined;
  readonly bytes?: Uint8Array | undefined;
}

/** Attributes of one task, of a span or of a link. */
export function taskAttributes({ pid, attempt, bytes }: TaskFacts): Attributes {
  const attributes: Attributes = {};
  if (pid.byteLength > 0) attributes['messaging.message.id'] = pidText(pid);
  if (bytes !== undefined) attributes['messaging.message.body.size'] = bytes.byteLength;
  if (attempt !== undefined) attributes[ATTEMPT] = attempt;
  return attributes;
}

/** Attributes of this system. */
const ATTEMPT = 'messaging.taskmaster.attempt';
export const RELEASE_REASON = 'messaging.taskmaster.release.reason';
export const DEAD_LETTER_QUEUE = 'messaging.taskmaster.dead_letter_queue';
export const TASK_COUNT = 'messaging.batch.message_count';
export const MESSAGE_ID = 'messaging.message.id';

/** The reason of a refusal, or the class of an error: of both there are few. */
export function errorType(error: unknown): string {
  if (isTaskMasterError(error)) return error.reason;
  return error instanceof Error ? error.constructor.name || '_OTHER' : '_OTHER';
}

/** The queues that metrics tell apart. */
const MOST_DESTINATIONS = 100;

/** Keeps the number of series small: the first queues and topics have series of their own, all others share those without one. */
export class Destinations {
  readonly #known = new Set<string>();

  attributes(operation: Operation, destination: string | undefined, failed: unknown): Attributes {
    const attributes = operationAttributes(operation);
    if (destination !== undefined && this.#isKnown(destination)) attributes['messaging.destination.name'] = destination;
    if (failed !== undefined) attributes['error.type'] = errorType(failed);
    return attributes;
  }

  #isKnown(destination: string): boolean {
    if (this.#known.has(destination)) return true;
    if (this.#known.size >= MOST_DESTINATIONS) return false;
    this.#known.add(destination);
    return true;
  }
}
