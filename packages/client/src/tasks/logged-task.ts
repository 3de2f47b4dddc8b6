/** What a line of a log says of a task: what names it, without its data. */
export interface LoggedTask {
  readonly queue: string;
  /** The text of the PID. */
  readonly id: string;
  readonly key?: string | undefined;
  readonly kind?: string | undefined;
  readonly attempt: number;
  readonly leaseToken: number;
}

/** These fields of a task. */
export const loggedTask = ({ queue, id, key, kind, attempt, leaseToken }: LoggedTask): LoggedTask => ({
  queue,
  id,
  key,
  kind,
  attempt,
  leaseToken,
});
