/** Rights on the queues of a group. */
export const groupRights = ['enqueue', 'lease', 'read', 'manage-queues'] as const;

/** Everything that a principal can be allowed to do. The last two are about the whole cluster and name no group. */
export const rights = [...groupRights, 'manage-cluster', 'back-up'] as const;

/** A right on the queues of a group. */
export type GroupRight = (typeof groupRights)[number];

/**
 * - `enqueue`: create tasks, and change schedules.
 * - `lease`: lease tasks, and complete, renew and release them; subscribe queues to topics.
 * - `read`: list queues, their settings, schedules and subscriptions, and see their statistics and tasks.
 * - `manage-queues`: delete queues, reset leases, and change settings of queues.
 * - `manage-cluster`: drain and remove members, and everything that `back-up` allows.
 * - `back-up`: make backups.
 */
export type Right = (typeof rights)[number];

/** One bit for each right, so that the rights on a group are one number. */
export function bitOf(right: Right): number {
  return 1 << rights.indexOf(right);
}
