import {
  formatQueueName,
  type ItemKind,
  pidText,
  type QueueName,
  type Reason,
  statusOfReason,
} from '@taskmaster/proto';
import type { Pid } from './ids.ts';

/** Longer values of metadata are cut: they travel in headers. */
export const METADATA_VALUE_CHARACTERS = 512;

export interface RefusalOptions {
  /** For programs, shown in ErrorInfo. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** When to try again, in ms. */
  readonly retryDelayMs?: number;
  readonly cause?: unknown;
}

/** A request was refused and changed nothing. The reason is stable, the message is for people. Has no stack. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal';
  readonly reason: Reason;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retryDelayMs: number | undefined;

  constructor(reason: Reason, message: string, options: RefusalOptions = {}) {
    // Where it was made is of no use to anyone, and to find out costs more than all else about refusing a request.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.reason = reason;
    this.metadata = options.metadata ?? {};
    this.retryDelayMs = options.retryDelayMs;
  }

  /** The gRPC status it travels under. */
  get code(): number {
    return statusOfReason[this.reason];
  }
}

/** One item of an update that made the whole update impossible. */
export interface RefusedItem {
  readonly kind: ItemKind;
  /** Place in the request's list of that kind, from 0. */
  readonly index: number;
  readonly queue: QueueName;
  readonly pid: Pid;
  readonly reason: Reason;
  readonly message: string;
}

/** An update was refused because of some of its items; the first one gives the reason of the whole. */
export class UpdateRefusal extends Refusal {
  override readonly name = 'UpdateRefusal';
  readonly items: readonly [RefusedItem, ...RefusedItem[]];

  constructor(items: readonly [RefusedItem, ...RefusedItem[]]) {
    const [first] = items;
    super(first.reason, items.length === 1 ? first.message : `${first.message} (and ${items.length - 1} more)`, {
      metadata: taskMetadata(first.queue, first.pid),
    });
    this.items = items;
  }
}

/** Which task a refusal is about. A PID that would be cut is left out: cut, it would be that of another task. */
export function taskMetadata(queue: QueueName, pid: Pid): Readonly<Record<string, string>> {
  const shown = pidText(Buffer.from(pid, 'latin1'));
  return { queue: formatQueueName(queue), ...(shown.length <= METADATA_VALUE_CHARACTERS && { pid: shown }) };
}
