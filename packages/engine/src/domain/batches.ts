import type { BatchCommand, BatchOutcome, UpdateCommand, UpdateEnd, UpdateOutcome } from './commands.ts';
import type { Refusal } from './refusal.ts';

/** An update alone, as a batch. */
export const batchOfOne = (command: UpdateCommand): BatchCommand => {
  const { group, enqueue, dequeue, renew, release, publishes, requestId } = command;
  return { group, enqueue, dequeue, renew, release, publishes, requestId, updates: [endOf(command)] };
};

/** Joins updates of one group. There is at least one. */
export function batchOf(commands: readonly UpdateCommand[], requestId: string | undefined): BatchCommand {
  const [first] = commands;
  const joined = { enqueue: [], dequeue: [], renew: [], release: [] } as {
    [List in keyof UpdateEnd]: UpdateCommand[List][number][];
  };
  const updates: UpdateEnd[] = [];
  for (const { enqueue, dequeue, renew, release } of commands) {
    for (const item of enqueue) joined.enqueue.push(item);
    for (const item of dequeue) joined.dequeue.push(item);
    for (const item of renew) joined.renew.push(item);
    for (const item of release) joined.release.push(item);
    updates.push(endOf(joined));
  }
  const publishes = commands.some((command) => command.publishes);
  return { group: first?.group ?? '', ...joined, publishes, requestId, updates };
}

/** Where the first update of a batch begins. */
export const BATCH_START: UpdateEnd = { enqueue: 0, dequeue: 0, renew: 0, release: 0 };

/** Where an update alone ends. */
export const endOf = ({
  enqueue,
  dequeue,
  renew,
  release,
}: Omit<UpdateCommand, 'group' | 'requestId' | 'publishes'>): UpdateEnd => ({
  enqueue: enqueue.length,
  dequeue: dequeue.length,
  renew: renew.length,
  release: release.length,
});

/**
 * Calls back for each update of a batch, in order: with the places in the lists of the outcome between which its outcomes are, or
 * with its refusal.
 */
export function eachResult(
  { updates }: BatchCommand,
  { refusals }: BatchOutcome,
  applied: (index: number, from: UpdateEnd, to: UpdateEnd) => void,
  refused: (index: number, refusal: Refusal) => void,
): void {
  /** Items of refused updates so far: they have no outcomes. */
  let left = BATCH_START;
  let start = BATCH_START;
  for (const [index, end] of updates.entries()) {
    const refusal = refusals.size === 0 ? undefined : refusals.get(index);
    if (refusal !== undefined) {
      left = minus(end, minus(start, left));
      refused(index, refusal);
    } else if (left === BATCH_START) {
      applied(index, start, end);
    } else {
      applied(index, minus(start, left), minus(end, left));
    }
    start = end;
  }
}

const minus = (a: UpdateEnd, b: UpdateEnd): UpdateEnd => ({
  enqueue: a.enqueue - b.enqueue,
  dequeue: a.dequeue - b.dequeue,
  renew: a.renew - b.renew,
  release: a.release - b.release,
});

/** The outcome of a batch of one update. @throws the `Refusal` of a refused one. */
export function onlyOutcome(outcome: BatchOutcome): UpdateOutcome {
  const refusal = outcome.refusals.get(0);
  if (refusal !== undefined) throw refusal;
  return outcome;
}
