/** Quotas of one group, which its holder enforces. An undefined one is not limited. */
export interface GroupLimits {
  readonly tasks?: number | undefined;
  /** Payload of all tasks, in bytes. */
  readonly bytes?: number | undefined;
  readonly queues?: number | undefined;
}

export const groupQuotas = ['tasks', 'bytes', 'queues'] as const;
