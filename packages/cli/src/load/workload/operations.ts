/** What one operation of a load does. A batch of tasks takes the place of one task in each. */
export const OPERATIONS = [
  'enqueue', // adds tasks
  'delay', // adds tasks that are hidden for a while
  'work', // leases tasks and completes them
  'renew', // leases tasks, renews their leases and completes them
  'pipeline', // leases tasks; completes them and adds as many to another queue of the group, atomically
  'release', // leases tasks and releases them
  'abandon', // leases tasks and lets their leases expire
  'peek', // reads the head of a queue
  'stats', // reads the statistics of a queue
] as const;

export type Operation = (typeof OPERATIONS)[number];

/** The share of each operation, as weights of any size. */
export type Mix = Readonly<Record<Operation, number>>;

/** As many tasks come as go. */
export const DEFAULT_MIX: Mix = {
  enqueue: 30,
  delay: 5,
  work: 30,
  renew: 5,
  pipeline: 20,
  release: 4,
  abandon: 1,
  peek: 3,
  stats: 2,
};

/** The operation to make instead of another one when tasks must not become more, or must not become fewer. */
export const takesInsteadOf: Readonly<Partial<Record<Operation, Operation>>> = { enqueue: 'work', delay: 'work' };
export const addsInsteadOf: Readonly<Partial<Record<Operation, Operation>>> = { work: 'enqueue', renew: 'enqueue' };
