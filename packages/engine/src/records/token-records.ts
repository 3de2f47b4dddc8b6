import type { TaskChange } from '../domain/atom.ts';
import type { Instant, Pid } from '../domain/ids.ts';
import type { LimitRecord } from '../domain/queue-limits.ts';
import { LONG_AGO, limitKeyOf, NEVER, type TaskState } from '../domain/task.ts';
import type { EngineState } from '../engine-state.ts';
import { recordState } from '../operations/attempts.ts';
import type { PlannedAtom, PlannedChange } from '../planned-atom.ts';
import type { TokenBucket } from '../queues/lanes/token-bucket.ts';
import type { Queue } from '../queues/queue.ts';
import type { Sweep } from '../sweeper.ts';
import { tokenRecords } from './record-store.ts';
import { pidOfBucket } from './token-table.ts';

const RECORDS_PER_ATOM = 1000;
const EMPTY = new Uint8Array(0);
const NONE: readonly never[] = [];

/** A bucket from which an atom takes tokens. */
interface Taken {
  readonly limit: LimitRecord;
  readonly key: string;
  tokens: number;
}

/** The state of a record. It follows from what the record says, so that memory need not keep it. Nothing shows the record. */
const stateOf = (emptyAt: Instant): TaskState => ({
  ...recordState(EMPTY, emptyAt),
  visibility: { kind: 'hidden', until: NEVER, lease: undefined },
});

/** Leases with what they take from the buckets of rates, in one atom. */
export function withTokens(engineState: EngineState, leases: PlannedAtom): PlannedAtom {
  const taken = takenBy(leases.changes);
  if (taken === undefined) return leases;
  const changes = [...leases.changes];
  const created: Queue[] = [];
  for (const [bucket, { limit, key, tokens }] of taken) {
    const name = tokenRecords.of(limit.group);
    let queue = engineState.table.get(name) ?? created.find(({ ledger }) => ledger.name.group === name.group);
    if (queue === undefined) {
      queue = engineState.draftQueue(name, created.length);
      created.push(queue);
    }
    const pid = pidOfBucket(limit, key);
    const { queueId } = queue.ledger;
    const earlier = engineState.limits.tokens.emptyAt(limit.group, pid);
    const after = stateOf(bucket.emptyAfter(tokens, leases.at));
    const change: TaskChange =
      earlier === undefined
        ? { kind: 'enqueue', queueId, pid, after, data: EMPTY }
        : { kind: 'change', queueId, pid, before: stateOf(earlier), after, data: undefined };
    changes.push({ queue, change, known: undefined });
  }
  return { ...leases, changes, created };
}

/** Undefined: no rate limits them. */
function takenBy(leases: readonly PlannedChange[]): Map<TokenBucket, Taken> | undefined {
  if (leases.every(({ queue }) => queue.limits === undefined)) return undefined;
  let taken: Map<TokenBucket, Taken> | undefined;
  const take = (bucket: TokenBucket | undefined, limit: LimitRecord, key: string): void => {
    if (bucket === undefined) return;
    taken ??= new Map();
    const known = taken.get(bucket);
    if (known === undefined) taken.set(bucket, { limit, key, tokens: 1 });
    else known.tokens++;
  };
  for (const { queue, change } of leases) {
    if (change.kind === 'dequeue') continue;
    for (const { record, tokens } of queue.limits ?? NONE) take(tokens, record, '');
    const limitKey = limitKeyOf(change.after);
    if (limitKey === undefined) continue;
    for (const [{ record }, { key, tokens }] of queue.lanes?.usesOf(limitKey) ?? NONE) take(tokens, record, key);
  }
  return taken;
}

/** Removes the records of buckets that are full, or whose limits have ended. */
export const sweepTokens: Sweep<Queue> = {
  everyMs: 500,
  next: ({ limits: { tokens } }) => (tokens.hasOver ? LONG_AGO : NEVER),
  *due({ limits: { tokens }, holdings }) {
    for (const queue of tokens.queuesWithOver()) if (holdings.canCommit(queue.partition)) yield queue;
  },
  async sweep(engineState, queue, goesOn) {
    const { partition, ledger } = queue;
    const { queueId } = ledger;
    const toRemove = (): [Pid, Instant][] => engineState.limits.tokens.over(queue, RECORDS_PER_ATOM);
    for (let over = toRemove(); over.length > 0; over = toRemove()) {
      if (!goesOn() || queue.dropped || !engineState.holdings.canCommit(partition)) return;
      const changes = over.map(([pid, emptyAt]): PlannedChange => {
        const change = { kind: 'dequeue' as const, queueId, pid, before: stateOf(emptyAt), completed: false };
        return { queue, change, known: undefined };
      });
      engineState.commit({ partition, at: engineState.clock.now(), changes });
      await engineState.durable();
    }
  },
};
