import type { CallSignal, Refusal } from '@taskmaster/engine/domain';
import type { LeaseTasksRequest, MethodHandlers, ReadEventsRequest, TaskMethodKey } from '@taskmaster/proto';
import { ANONYMOUS } from '../access/access-table.ts';
import type { CallerAccess } from '../access/caller-access.ts';
import type { Visitor } from './turnstile.ts';

/** The client that made a call. */
export interface Caller {
  /** `host:port`. */
  readonly address: string;
  /** Who the caller is, and what it may do. Ask it after a request is read and before it has any effect. */
  readonly access: CallerAccess;
  /** True if the caller no longer waits for the answer. */
  readonly gone: boolean;
  /** Aborted once `gone`. */
  readonly signal: CallSignal | undefined;
  /** The span of the caller, as it says, for the log. Undefined: it says none. */
  readonly traceparent?: string | undefined;
  /** True if a router of this process has counted the requests of the call for the quotas of its principal. */
  readonly isCounted?: boolean;
  /**
   * Call this before the call waits. `bytes`: approximate memory of what it waits for. Throws a `Refusal` if too many
   * calls of the same connection or stream already wait, or name too much. Undefined: no limit. `recheck`: throws a `Refusal` if
   * the caller has lost a right that the wait needs; then the wait ends.
   */
  beginWaiting?(bytes: number, recheck?: () => void): void;
  /** Records that one request of a batch was refused, as a refusal of the call is. Undefined: it is not recorded here. */
  requestRefused?(refusal: Refusal): void;
}

/** One function for each method of the TaskMasterService with one reply. */
export type TaskHandlers = MethodHandlers<TaskMethodKey, [caller: Caller]>;

/** The share in which a caller takes part: that of its principal, or of its host if it is not known by name. */
export function visitorOf(caller: Pick<Caller, 'address' | 'access'>): Visitor {
  const { address, access } = caller;
  const tenant = isNamed(caller)
    ? `principal ${access.principal}`
    : `host ${address.slice(0, address.lastIndexOf(':'))}`;
  return { tenant, connection: address };
}

/** What people know the caller by: the name of its principal, or its address. */
export const callerName = (caller: Pick<Caller, 'address' | 'access'>): string =>
  isNamed(caller) ? caller.access.principal : caller.address;

const isNamed = ({ access: { principal } }: Pick<Caller, 'access'>): boolean =>
  principal !== '' && principal !== ANONYMOUS;

/** Counts requests beside the call itself, which counts already. Throws a `Refusal` if the principal has reached a quota. */
export function countRequests({ access, isCounted = false }: Pick<Caller, 'access' | 'isCounted'>, more: number): void {
  if (!isCounted && more > 0) access.usage?.alsoRequests(more);
}

/** Memory of a waiter for each queue or task that it names, beside the names, in bytes. */
const QUEUE_BYTES = 200;

/** Memory of a waiter for each pattern, beside the expression. */
const PATTERN_BYTES = 400;

/** Approximate memory that a lease request uses while it waits, in bytes. */
export function waitingBytes({ queues, patterns }: Pick<LeaseTasksRequest, 'queues' | 'patterns'>): number {
  let bytes = 0;
  for (const queue of queues) bytes += QUEUE_BYTES + queue.length;
  for (const { nameRegex, group = '' } of patterns) bytes += PATTERN_BYTES + nameRegex.length + group.length;
  return bytes;
}

/** Approximate memory that a read of events uses while it waits, in bytes. */
export const readerBytes = ({ queues, task }: Pick<ReadEventsRequest, 'queues' | 'task'>): number =>
  PATTERN_BYTES + queues.length + (task?.value.length ?? 0);

/** Approximate memory that a wait for these tasks uses, in bytes. */
export function awaitedBytes(tasks: readonly { readonly queue: string; readonly pid: Uint8Array }[]): number {
  let bytes = 0;
  for (const { queue, pid } of tasks) bytes += QUEUE_BYTES + queue.length + pid.length;
  return bytes;
}
