import type { TaskChange } from '../domain/atom.ts';
import { deadLetterEnd, decodeEnd, recordPid } from '../domain/end-record.ts';
import type { LeaseToken, Pid } from '../domain/ids.ts';
import type { TaskState } from '../domain/task.ts';
import type { TaskEnd } from '../domain/task-end.ts';
import { cancelReasonOf } from '../operations/attempts.ts';
import { type PlannedAtom, type PlannedChange, stateAfter } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';
import { endRecords } from '../records/record-store.ts';

type Dequeued = Extract<TaskChange, { readonly kind: 'dequeue' }>;

/** How an atom has ended its tasks. It indexes the atom when it is asked for the first time, because it may be asked often. */
export class AtomEnds {
  readonly #plan: PlannedAtom;
  #found: Found | undefined;

  constructor(plan: PlannedAtom) {
    this.#plan = plan;
  }

  /** The end of a task: what this change of it says, and the other changes. */
  of(change: Dequeued, planned: PlannedChange): TaskEnd {
    const { queue, isRemoval } = planned;
    const { at } = this.#plan;
    const { pid, before, completed } = change;
    const { group, name } = queue.ledger.name;
    const record = isRemoval ? undefined : this.#index.records.get(planned);
    if (record !== undefined) return decodeEnd(record);
    const dead = completed ? undefined : this.deadLetter(group, name, pid);
    if (dead !== undefined) return deadLetterEnd(dead.state, at);
    const outcome = completed && !isRemoval ? 'completed' : 'removed';
    const rest = { result: undefined, error: undefined, cancelReason: undefined };
    return { outcome, at, attempts: before.attempts, ...rest };
  }

  /** The dead letter of a task, if the atom puts it into a place. `queue` and `pid`: where the task was before. */
  deadLetter(group: string, queue: string, pid: Pid): DeadLetter | undefined {
    return this.#index.deadLetters.get(keyOf(group, queue, pid));
  }

  get #index(): Found {
    this.#found ??= isLoneEnd(this.#plan) ? NOTHING_FOUND : foundIn(this.#plan);
    return this.#found;
  }
}

/** Why the worker with this lease should stop. Undefined: it need not, or there is no worker. `state`: of its task. */
export function endOfLease(state: TaskState, token: LeaseToken | undefined): TaskEnd | undefined {
  if (token === undefined) return undefined;
  const cancelReason = cancelReasonOf(state);
  if (state.token === token && cancelReason === undefined) return undefined;
  const { attempts } = state;
  const rest = { at: undefined, attempts, result: undefined, error: undefined };
  return state.token === token
    ? { outcome: 'cancel-requested', cancelReason, ...rest }
    : { outcome: 'lease-lost', cancelReason: undefined, ...rest };
}

/** The end of all tasks of a queue that is deleted. */
export const endOfDeleted = ({ at }: PlannedAtom): TaskEnd => ({
  outcome: 'removed',
  at,
  attempts: 0,
  result: undefined,
  error: undefined,
  cancelReason: undefined,
});

/** What an atom writes about ends of tasks. */
interface Found {
  /** Data of records, by the ends that left them: an atom may end several tasks with one PID. */
  readonly records: ReadonlyMap<PlannedChange, Uint8Array>;
  /** Dead letters, by the queue that they come from and their PIDs. */
  readonly deadLetters: ReadonlyMap<string, DeadLetter>;
}

/** A dead letter of an atom. */
interface DeadLetter {
  readonly state: TaskState;
  /** Its last place in the atom: another dead letter may take its first one. */
  readonly queue: Queue;
  readonly pid: Pid;
  /** True if its last attempt ended with this atom. */
  readonly hasDied: boolean;
}

const NOTHING_FOUND: Found = { records: new Map(), deadLetters: new Map() };

/** A single end that leaves no record and no dead letter, as most do. */
const isLoneEnd = ({ changes }: PlannedAtom): boolean => changes.length === 1 && changes[0]?.change.kind === 'dequeue';

function foundIn({ changes }: PlannedAtom): Found {
  const records = new Map<PlannedChange, Uint8Array>();
  /** The last one with each PID so far, by the PID of its record. A record follows the end that leaves it. */
  const ended = new Map<string, PlannedChange>();
  const deadLetters = new Map<string, DeadLetter>();
  const died = new Set<string>();
  for (const planned of changes) {
    const { queue, change, failure } = planned;
    const { name } = queue.ledger;
    const { pid } = change;
    // All that die leave their queues before any arrives.
    if (failure === 'dead') died.add(keyOf(name.group, name.name, pid));
    if (endRecords.has(name)) {
      const end = ended.get(keyOf(name.group, '', pid));
      if (end !== undefined && change.kind !== 'dequeue' && change.data !== undefined) records.set(end, change.data);
    } else {
      if (change.kind === 'dequeue') ended.set(keyOf(name.group, '', recordPid(name.name, pid)), planned);
      const after = stateAfter(change);
      const origin = after?.history?.origin;
      if (after === undefined || origin === undefined) continue;
      const key = keyOf(name.group, origin.queue, origin.died?.pid ?? pid);
      const state = deadLetters.get(key)?.state ?? after;
      deadLetters.set(key, { state, queue, pid, hasDied: died.has(key) });
    }
  }
  return { records, deadLetters };
}

const keyOf = (group: string, queue: string, pid: Pid): string =>
  `${group.length} ${queue.length} ${group}${queue}${pid}`;
