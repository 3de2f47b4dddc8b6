import {
  type LeaseCommand,
  type LeasePattern,
  type QueueFilter,
  Refusal,
  type UpdateCommand,
} from '@taskmaster/engine/domain';
import { type AwaitedTask, parseQueueName, type QueueName, type Scope } from '@taskmaster/proto';
import type { CallerAccess } from '../access/caller-access.ts';

// The rights that operations on queues need. Each throws a `Refusal` UNAUTHENTICATED or PERMISSION_DENIED.

/** The right on the cluster that a method takes. */
export function requireClusterRight(access: CallerAccess, { scope }: { readonly scope: Scope<never> }): void {
  if (scope.of === 'cluster' && scope.right !== undefined) access.requireCluster(scope.right);
}

/** To create tasks is one right. To complete, renew and release them is another. */
export function requireUpdate(access: CallerAccess, { group, enqueue, dequeue, renew, release }: UpdateCommand): void {
  if (access.isUnlimited) return;
  if (enqueue.length > 0) access.require('enqueue', group);
  if (dequeue.length + renew.length + release.length > 0) access.require('lease', group);
}

interface LeaseSources {
  readonly queues: readonly Pick<QueueName, 'group'>[];
  readonly patterns?: readonly { readonly group?: string | undefined }[] | undefined;
}

/** The right to lease from all these queues. A pattern over all groups needs an identity: the groups are checked one by one. */
export function requireLease(access: CallerAccess, sources: LeaseSources): void {
  if (access.isUnlimited) return;
  checkLease(access, groupsOf(sources));
}

/** Checks the rights of a waiting lease again. Undefined: they cannot change. It keeps nothing but the names of the groups. */
export function recheckOfLease(access: CallerAccess, sources: LeaseSources): (() => void) | undefined {
  if (access.isUnlimited) return undefined;
  const groups = groupsOf(sources);
  return () => checkLease(access, groups);
}

/** Undefined stands for all groups. */
function groupsOf({ queues, patterns = [] }: LeaseSources): ReadonlySet<string | undefined> {
  return new Set([...queues, ...patterns].map(({ group }) => group));
}

function checkLease(access: CallerAccess, groups: ReadonlySet<string | undefined>): void {
  for (const group of groups) {
    if (group === undefined) access.requireIdentity();
    else access.require('lease', group);
  }
}

/** The lease, restricted to the queues that the caller may lease from. */
export function leasableOnly(access: CallerAccess, command: LeaseCommand): LeaseCommand {
  const { patterns } = command;
  if (access.isUnlimited || patterns === undefined) return command;
  const mayLease = (group: string): boolean | undefined => {
    try {
      return access.allows('lease', group);
    } catch (error) {
      // A credential that is no longer valid, which says nothing about other callers of the principal.
      if (error instanceof Refusal) return undefined;
      throw error;
    }
  };
  const { principal } = access;
  const ofCaller = (pattern: LeasePattern): LeasePattern => ({
    ...pattern,
    key: `${pattern.key}\uFFFD${principal}`,
    principal,
    // The right on a single group was checked already.
    mayLease: pattern.group === undefined ? mayLease : undefined,
  });
  return { ...command, patterns: patterns.map(ofCaller) };
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

/** Checks the right to read a group, now and later. Undefined: it cannot change. */
export function recheckOfRead(access: CallerAccess, group: string): (() => void) | undefined {
  if (access.isUnlimited) return undefined;
  const check = (): void => access.require('read', group);
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
