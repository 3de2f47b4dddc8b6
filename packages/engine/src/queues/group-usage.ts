import type { GroupLimits } from '../domain/group-limits.ts';

/** What all queues of a group hold. */
export interface GroupUsage {
  queues: number;
  tasks: number;
  /** Payload, and signals that came before their tasks, in bytes. */
  bytes: number;
}

/** The quotas of a group. Undefined: none. Asked at each enqueue, because they may change. */
export type GroupLimitsOf = (group: string) => GroupLimits | undefined;

/** A group with quotas, and what it uses of them. */
export interface LimitedGroup {
  readonly group: string;
  readonly limits: GroupLimits;
  readonly usage: Readonly<GroupUsage>;
}
