/** A queue's name: its consistency group (empty: the default group) and its name within the group. */
export interface QueueName {
  readonly group: string;
  readonly name: string;
}

/** Reads `group#name`, or `name` in the default group. The first `#` separates; the name may contain more. */
export function parseQueueName(full: string): QueueName {
  const at = full.indexOf('#');
  return at < 0 ? { group: '', name: full } : { group: full.slice(0, at), name: full.slice(at + 1) };
}

/** Writes `group#name`; a name of the default group stands alone unless it contains `#` itself. */
export function formatQueueName({ group, name }: QueueName): string {
  return group === '' && !name.includes('#') ? name : `${group}#${name}`;
}
