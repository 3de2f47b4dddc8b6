import type { AwaitedTask, QueueName } from '@taskmaster/proto';
import { parseQueueName } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';
import type { QueueFilter, UpdateCommand } from '../domain/commands.ts';

// The rights that operations on queues need. Each throws a `Refusal` UNAUTHENTICATED or PERMISSION_DENIED.

/** To create tasks is one right. To complete, renew and release them is another. */
export function requireUpdate(access: CallerAccess, { group, enqueue, dequeue, renew, release }: UpdateCommand): void {
  if (access.isUnlimited) return;
  if (enqueue.length > 0) access.require('enqueue', group);
  if (dequeue.length + renew.length + release.length > 0) access.require('lease', group);
}

/** The right to lease from all these queues. */
export function requireLease(access: CallerAccess, queues: readonly Pick<QueueName, 'group'>[]): void {
  if (access.isUnlimited) return;
  for (const { group } of queues) access.require('lease', group);
}

/** Checks the rights of a waiting lease again. Undefined: they cannot change. It keeps nothing but the names of the groups. */
export function recheckOfLease(
  access: CallerAccess,
  queues: readonly Pick<QueueName, 'group'>[],
): (() => void) | undefined {
  if (access.isUnlimited) return undefined;
  const groups = [...new Set(queues.map(({ group }) => group))];
  return () => {
    for (const group of groups) access.require('lease', group);
  };
}

/**
 * Checks the rights to wait for tasks of a group, now and later. A worker that waits with a lease needs only the right to lease.
 * Undefined: they cannot change.
 */
export function recheckOfWait(
  access: CallerAccess,
  group: string,
  tasks: readonly Pick<AwaitedTask, 'leaseToken'>[],
): (() => void) | undefined {
  if (access.isUnlimited) return undefined;
  const ofWorkers = tasks.some(({ leaseToken = 0 }) => leaseToken !== 0);
  const ofOthers = tasks.some(({ leaseToken = 0 }) => leaseToken === 0);
  const check = (): void => {
    if (ofOthers) access.require('read', group);
    if (ofWorkers) access.require('lease', group);
  };
  check();
  return check;
}

/** The filter, restricted to the queues that the caller may read. */
export function readableOnly(access: CallerAccess, filter: QueueFilter): QueueFilter {
  if (access.isUnlimited) return filter;
  if (filter.group !== undefined) {
    access.require('read', filter.group);
    return filter;
  }
  access.requireIdentity();
  const { matches } = filter;
  const isReadable = (fullName: string): boolean => access.allows('read', parseQueueName(fullName).group);
  return { ...filter, matches: (fullName) => isReadable(fullName) && (matches === undefined || matches(fullName)) };
}
