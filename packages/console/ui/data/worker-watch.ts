import {
  EventKind,
  PeekKind,
  parseQueueName,
  QueueFilter,
  type TaskInfo,
  type UnreachableNode,
} from '@taskmaster/proto/messages';
import { type Ended, endsByLabel, groupByWorker, workerName } from '../show/workers.ts';
import { LooksInTurn } from './looks-in-turn.ts';
import { CallError, call, make } from './rpc.ts';

/** A worker, as the page has seen it. */
export interface SeenWorker {
  readonly label: string;
  readonly addresses: readonly string[];
  /** Tasks that it holds, as of the last look at each queue. */
  readonly tasks: readonly TaskInfo[];
  /** When it held a task last, by the clock of the browser. */
  readonly seenAt: number;
  /**
   * Attempts that it ended in a second, while they are counted. Undefined: they are not counted yet, or it has no label, by which
   * events name workers.
   */
  readonly completeRate: number | undefined;
  readonly failRate: number | undefined;
}

export interface Workers {
  readonly workers: readonly SeenWorker[];
  /** Queues with leased tasks, and how many of them were looked at so far. */
  readonly queues: number;
  readonly lookedAt: number;
  /** The earliest of the last looks at each queue, by the clock of the browser. */
  readonly oldestLook: number;
  readonly leased: number;
  /** True: more happened than was read, so rates are too low. */
  readonly isBehind: boolean;
  /** The time over which rates are counted, in ms. 0: from now on. */
  readonly countedMs: number;
  /** Nodes that did not answer. What is leased there is missing. */
  readonly unreachable: readonly UnreachableNode[];
}

/** Queues that each update looks at: those with the most leased tasks, and some of the others in turn. */
const BUSIEST = 40;
const OTHERS = 40;
/** Tasks of one queue. */
const TASKS = 1_000;
/** Calls that are made at once. */
const AT_ONCE = 4;
/** Groups whose events are read. */
const MOST_GROUPS = 20;
const EVENTS = 1_000;
const ROUNDS = 3;
const WINDOW_MS = 60_000;
/** Workers that hold nothing are shown for this time. */
const SHOWN_MS = 10 * 60_000;

const ENDS: readonly EventKind[] = [
  EventKind.EVENT_KIND_COMPLETED,
  EventKind.EVENT_KIND_FAILED,
  EventKind.EVENT_KIND_DEAD_LETTERED,
];

/** Undefined: the node does not answer. The others go on without it, and the page names it. */
async function answerOf<T>(reply: Promise<T>): Promise<T | undefined> {
  try {
    return await reply;
  } catch (thrown) {
    if (thrown instanceof CallError && thrown.reason === 'HOLDER_UNREACHABLE') return undefined;
    throw thrown;
  }
}

/** Follows who works: what workers hold from the leased tasks, what they do from the events of the groups. */
export class WorkerWatch {
  readonly #positions = new Map<string, string>();
  readonly #seen = new Map<string, Pick<SeenWorker, 'label' | 'addresses' | 'seenAt'>>();
  readonly #looks = new LooksInTurn<TaskInfo>(BUSIEST, OTHERS);
  /** Since when events are read, by the clock of the browser. Undefined: this begins with the first update. */
  #since: number | undefined;
  #ended: Ended[] = [];

  async update(signal: AbortSignal): Promise<Workers> {
    const filter = make(QueueFilter, { minLeased: 1 });
    const { queues, totals, unreachable } = await call('GetQueueStats', { filter }, signal);
    const busiest = queues.toSorted((a, b) => b.leased - a.leased).map(({ queue }) => queue);
    const [, isBehind] = await Promise.all([this.#look(busiest, signal), this.#readEvents(busiest, signal)]);
    const now = Date.now();
    const looks = this.#looks.all;
    // The latest look last, which says when a worker was seen.
    for (const { found, at } of looks)
      for (const { label, addresses } of groupByWorker(found))
        this.#seen.set(workerName({ label, addresses }), { label, addresses, seenAt: at });
    const held = groupByWorker(looks.flatMap(({ found }) => found));
    for (const [key, { seenAt }] of this.#seen) if (now - seenAt > SHOWN_MS) this.#seen.delete(key);
    this.#ended = this.#ended.filter(({ at }) => now - at < WINDOW_MS);
    const countedMs = this.#since === undefined ? 0 : Math.min(WINDOW_MS, now - this.#since);
    this.#since ??= now;
    const ends = endsByLabel(this.#ended);
    const rate = (label: string, of: 'completed' | 'failed'): number | undefined =>
      label === '' || countedMs === 0 ? undefined : (ends.get(label)?.[of] ?? 0) / Math.max(1, countedMs / 1_000);
    const tasksOf = new Map(held.map((one) => [workerName(one), one.tasks]));
    const workers = [...this.#seen].map(([key, { label, addresses, seenAt }]) => ({
      label,
      addresses,
      seenAt,
      tasks: tasksOf.get(key) ?? [],
      completeRate: rate(label, 'completed'),
      failRate: rate(label, 'failed'),
    }));
    workers.sort((a, b) => b.tasks.length - a.tasks.length || (workerName(a) < workerName(b) ? -1 : 1));
    // The sums come from another call, and beside the workers stands what these hold.
    const isWhole = busiest.length <= BUSIEST + OTHERS && looks.every(({ found }) => found.length < TASKS);
    return {
      workers,
      queues: totals?.queues ?? queues.length,
      lookedAt: looks.length,
      oldestLook: looks[0]?.at ?? now,
      leased: isWhole ? held.reduce((sum, { tasks }) => sum + tasks.length, 0) : (totals?.leased ?? 0),
      isBehind,
      countedMs,
      unreachable,
    };
  }

  async #look(queues: readonly string[], signal: AbortSignal): Promise<void> {
    const next = this.#looks.next(queues);
    const work = async (): Promise<void> => {
      for (let queue = next.shift(); queue !== undefined; queue = next.shift()) {
        const request = { queue, kind: PeekKind.PEEK_KIND_LEASED, limit: TASKS };
        const reply = await answerOf(call('PeekTasks', request, signal));
        if (reply !== undefined) this.#looks.saw(queue, { found: reply.tasks, at: Date.now() });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }

  /** Returns whether more has happened than was read. */
  async #readEvents(queues: readonly string[], signal: AbortSignal): Promise<boolean> {
    let isAll = true;
    for (const queue of queues) {
      const { group } = parseQueueName(queue);
      if (this.#positions.has(group)) continue;
      if (this.#positions.size < MOST_GROUPS) this.#positions.set(group, '');
      else isAll = false;
    }
    const behind = await Promise.all([...this.#positions.keys()].map((group) => this.#readGroup(group, signal)));
    return !isAll || behind.includes(true);
  }

  async #readGroup(group: string, signal: AbortSignal): Promise<boolean> {
    for (let round = 0; round < ROUNDS; round++) {
      const after = this.#positions.get(group) ?? '';
      const request = { queues: `${group}#*`, after, kinds: [...ENDS], maxEvents: EVENTS };
      const reply = await answerOf(call('ReadEvents', request, signal));
      if (reply === undefined) return false;
      const { events, position } = reply;
      if (position !== '') this.#positions.set(group, position);
      const now = Date.now();
      for (const { kind, worker } of events) {
        if (kind === EventKind.EVENT_KIND_MISSED) continue;
        this.#ended.push({ at: now, label: worker, isFailure: kind !== EventKind.EVENT_KIND_COMPLETED });
      }
      if (events.length < EVENTS) return false;
    }
    return true;
  }
}
