import {
  formatQueueName,
  type ItemKind,
  pidText,
  type QueueName,
  type Reason,
  statusOfReason,
} from '@taskmaster/proto';
import type { Pid } from './ids.ts';

/** Longer values of metadata are truncated, because they travel in headers. */
export const METADATA_VALUE_CHARACTERS = 512;

export interface RefusalOptions {
  /** Facts for programs. They travel in ErrorInfo. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Delay before a retry, in ms. Undefined: the default of the reason. */
  readonly retryDelayMs?: number;
  readonly cause?: unknown;
}

/** A request was refused. The reason is for programs and stable; the message is for people. It has no stack. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal';
  readonly reason: Reason;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retryDelayMs: number | undefined;

  constructor(reason: Reason, message: string, options: RefusalOptions = {}) {
    // The stack is of no use, and capturing it is the most expensive part of a refusal.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.reason = reason;
    this.metadata = options.metadata ?? {};
    this.retryDelayMs = options.retryDelayMs;
  }

  /** The gRPC status of the reason. */
  get code(): number {
    return statusOfReason[this.reason];
  }
}

/** An item for which a whole update was refused. */
export interface RefusedItem {
  readonly kind: ItemKind;
  /** Index in the list of its kind in the request, from 0. */
  readonly index: number;
  readonly queue: QueueName;
  /** Empty if the item has a key. */
  readonly pid: Pid;
  /** The key by which the item names its task. Undefined: it names the PID. */
  readonly key?: string | undefined;
  readonly reason: Reason;
  readonly message: string;
}

/** An update was refused because of some of its items. The reason of the first item is the reason of the refusal. */
export class UpdateRefusal extends Refusal {
  override readonly name = 'UpdateRefusal';
  readonly items: readonly [RefusedItem, ...RefusedItem[]];

  constructor(items: readonly [RefusedItem, ...RefusedItem[]]) {
    const [first] = items;
    super(first.reason, items.length === 1 ? first.message : `${first.message} (and ${items.length - 1} more)`, {
      metadata: taskMetadata(first.queue, first),
    });
    this.items = items;
  }
}

/** Metadata that name a task. A PID that is too long is left out: truncated, it would name another task. */
export function taskMetadata(
  queue: QueueName,
  { pid, key }: Pick<RefusedItem, 'pid' | 'key'>,
): Readonly<Record<string, string>> {
  if (key !== undefined) return { queue: formatQueueName(queue), key };
  const shown = pidText(Buffer.from(pid, 'latin1'));
  return { queue: formatQueueName(queue), ...(shown.length <= METADATA_VALUE_CHARACTERS && { pid: shown }) };
}
