import {
  type Call,
  type CallOf,
  History,
  type HistoryEvent,
  type LeasedReply,
  type Outcome,
  showHistory,
  type TaskCall,
} from './history.ts';
import { eventsBehind, type FinalTask, violationsOf } from './history-checker.ts';
import { MOST_SHOWN, type Verdict, type Violation } from './verdict.ts';

type UpdateEvent = HistoryEvent<CallOf<'update'>>;
type Updated = Extract<Outcome, { readonly kind: 'updated' }>;

/** The calls about one task. */
interface Life {
  readonly events: HistoryEvent[];
  readonly leases: string[];
  /** When its completion was acknowledged. Undefined: it was not. */
  doneSeq: number | undefined;
  /** True if the checker must compare it with others at the end, because an update of it has an unknown outcome. */
  isPinned: boolean;
}

/** Tasks that are checked together. */
const CHECKED_TOGETHER = 256;

/**
 * A history that is checked while it grows. Its memory is bounded by the tasks in the queues, and does not grow with time:
 *
 *  T1  An update with a known outcome says the same about each of its tasks as an update of this task alone. So it is cut up,
 *      and the history of each task is checked by itself.
 *  T2  A task whose completion was acknowledged is checked and forgotten when no call is open that began before that. A later
 *      lease of a forgotten task is a violation whatever its history.
 *  T3  Tasks of updates with an unknown outcome are kept to the end.
 */
export class TaskHistory {
  readonly #history = new History();
  readonly #clockSlackMs: number;
  /** The tasks that are not forgotten, by their data: the number of the task as text. */
  readonly #lives = new Map<string, Life>();
  readonly #byLease = new Map<string, Life>();
  #done: string[] = [];
  #tasks = 0;
  #mostHeld = 0;
  #found: FinalTask[] = [];
  #left = 0;
  readonly #calls = { succeeded: 0, refused: 0, unknown: 0 };
  readonly #shown: Violation[] = [];
  #violations = 0;

  /** @param clockSlackMs a lease may end earlier by this time, in ms. */
  constructor(clockSlackMs: number) {
    this.#clockSlackMs = clockSlackMs;
  }

  /** The number for the next task. It is the data of the task in this history. */
  nextTask(): number {
    return ++this.#tasks;
  }

  /** Tasks that the history holds. */
  get held(): number {
    return this.#lives.size;
  }

  /** Updates with an unknown outcome so far. */
  get unknown(): number {
    return this.#calls.unknown;
  }

  /** Records a call. The result records its outcome. */
  begin(call: Call, at: number): (outcome: Outcome, at: number) => void {
    if (call.kind === 'update') {
      for (const { data } of call.enqueue) {
        this.#lives.set(data, { events: [], leases: [], doneSeq: undefined, isPinned: false });
      }
      this.#mostHeld = Math.max(this.#mostHeld, this.#lives.size);
    }
    const recording = this.#history.begin(call, at);
    return (outcome, endedAt) => {
      recording.end(outcome, endedAt);
      for (const event of this.#history.take()) this.#record(event);
      this.#forgetDone(CHECKED_TOGETHER);
    };
  }

  /** Reports a violation that the history alone does not show. */
  report(message: string, history = ''): void {
    this.#violations++;
    if (this.#shown.length < MOST_SHOWN) this.#shown.push({ message, history });
  }

  /** Tells of a task that is in a queue after all calls have ended. */
  foundAtEnd(task: FinalTask): void {
    this.#left++;
    if (this.#lives.has(task.data)) this.#found.push(task);
    else this.report(`${this.#forgotten(task.data)}, but it is in ${task.queue} at the end: ${task.data}`);
  }

  /** Checks the rest of the history. All calls must have ended, and all tasks that are left must have been told. */
  finish(): Verdict {
    this.#forgetDone(1);
    const rest = new Set([...this.#lives.values()].flatMap(({ events }) => events));
    this.#check([...rest], this.#found);
    return {
      tasks: this.#tasks,
      calls: { ...this.#calls },
      tasksLeft: this.#left,
      mostTasksHeld: this.#mostHeld,
      violations: this.#violations,
      shown: [...this.#shown],
    };
  }

  #record(event: HistoryEvent): void {
    const { outcome } = event;
    if (outcome.kind === 'refused' || outcome.kind === 'unknown') this.#calls[outcome.kind]++;
    else this.#calls.succeeded++;
    if (outcome.kind === 'leased') for (const task of outcome.tasks) this.#recordLease(event, task);
    if (!isUpdate(event)) return;
    if (outcome.kind === 'updated') this.#recordUpdate(event, outcome);
    else if (outcome.kind === 'refused') this.#recordRefusal(event);
    else this.#recordUnknown(event);
  }

  #recordLease(event: HistoryEvent, task: LeasedReply): void {
    const life = this.#lives.get(task.data);
    const part: HistoryEvent = { ...event, outcome: { kind: 'leased', tasks: [task], dismissed: false } };
    if (life === undefined) {
      this.report(`${this.#forgotten(task.data)}, but leased by #${event.id}: ${task.data}`, showHistory([part]));
      return;
    }
    const key = leaseKey(task);
    life.events.push(part);
    life.leases.push(key);
    this.#byLease.set(key, life);
  }

  #recordUpdate(event: UpdateEvent, outcome: Updated): void {
    const { call } = event;
    const none = { enqueue: [], dequeue: [], renew: [], release: [] };
    const nothing = { enqueued: [], renewed: [], released: [] };
    for (const [index, item] of call.enqueue.entries()) {
      const enqueued = outcome.enqueued.slice(index, index + 1);
      const part = {
        ...event,
        call: { ...call, ...none, enqueue: [item] },
        outcome: { ...outcome, ...nothing, enqueued },
      };
      if (enqueued[0]?.result === 'created') this.#lives.get(item.data)?.events.push(part);
      else this.#notCreated(item.data, part);
    }
    for (const item of call.dequeue) {
      const part = { ...event, call: { ...call, ...none, dequeue: [item] }, outcome: { ...outcome, ...nothing } };
      const life = this.#changedBy(item, part);
      if (life === undefined || life.doneSeq !== undefined) continue;
      life.doneSeq = event.endedSeq;
      const data = this.#dataOf(life);
      if (data !== undefined) this.#done.push(data);
    }
    for (const [index, item] of call.renew.entries()) {
      const renewed = outcome.renewed.slice(index, index + 1);
      this.#changedBy(item, {
        ...event,
        call: { ...call, ...none, renew: [item] },
        outcome: { ...outcome, ...nothing, renewed },
      });
    }
    for (const [index, item] of call.release.entries()) {
      const released = outcome.released.slice(index, index + 1);
      this.#changedBy(item, {
        ...event,
        call: { ...call, ...none, release: [item] },
        outcome: { ...outcome, ...nothing, released },
      });
    }
  }

  #recordRefusal(event: UpdateEvent): void {
    for (const item of event.call.enqueue) {
      const call = { ...event.call, enqueue: [item], dequeue: [], renew: [], release: [] };
      this.#notCreated(item.data, { ...event, call });
    }
  }

  #recordUnknown(event: UpdateEvent): void {
    const { enqueue, dequeue, renew, release } = event.call;
    const lives = [
      ...enqueue.map(({ data }) => this.#lives.get(data)),
      ...[...dequeue, ...renew, ...release].map((item) => this.#byLease.get(leaseKey(item))),
    ];
    for (const life of lives) {
      if (life === undefined) continue;
      life.events.push(event);
      life.isPinned = true;
    }
  }

  /** A task that was refused is forgotten, unless a worker has it. */
  #notCreated(data: string, event: HistoryEvent): void {
    const life = this.#lives.get(data);
    if (life === undefined) return;
    life.events.push(event);
    if (life.leases.length === 0) this.#lives.delete(data);
  }

  #changedBy(item: TaskCall, event: HistoryEvent): Life | undefined {
    const life = this.#byLease.get(leaseKey(item));
    if (life === undefined) {
      const which = `${item.pid} of ${item.queue}, token ${item.token}`;
      this.report(`(b) changed by #${event.id} after it was completed: ${which}`, showHistory([event]));
    } else life.events.push(event);
    return life;
  }

  #dataOf(life: Life): string | undefined {
    for (const { outcome } of life.events) {
      if (outcome.kind === 'leased') return outcome.tasks[0]?.data;
    }
    return undefined;
  }

  /** Checks and forgets the tasks that are done, if their number has reached the argument (T2). */
  #forgetDone(atLeast: number): void {
    if (this.#done.length < atLeast) return;
    const oldest = this.#history.oldestOpenSeq;
    const waits = this.#done.findIndex((data) => (this.#lives.get(data)?.doneSeq ?? 0) >= oldest);
    const ready = this.#done.splice(0, waits < 0 ? this.#done.length : waits);
    const events: HistoryEvent[] = [];
    for (const data of ready) {
      const life = this.#lives.get(data);
      if (life === undefined || life.isPinned) continue;
      events.push(...life.events);
      for (const lease of life.leases) this.#byLease.delete(lease);
      this.#lives.delete(data);
    }
    this.#check(events, []);
  }

  #check(events: readonly HistoryEvent[], found: readonly FinalTask[]): void {
    for (const message of violationsOf(events, found, { clockSlackMs: this.#clockSlackMs })) {
      this.report(message, showHistory(eventsBehind(message, events)));
    }
  }

  /** What is known of a task that the history does not hold. */
  #forgotten(data: string): string {
    const isOurs = /^\d+$/.test(data) && Number(data) >= 1 && Number(data) <= this.#tasks;
    return isOurs ? '(b) completed or refused before' : 'never enqueued';
  }
}

function isUpdate(event: HistoryEvent): event is UpdateEvent {
  return event.call.kind === 'update';
}

/** Names one lease of one task. */
function leaseKey({ queue, pid, token }: TaskCall): string {
  return `${token} ${queue} ${pid}`;
}
