import { formatQueueName, NOTHING_CHANGED } from '@taskmaster/proto';
import type { CallSignal } from '../domain/call-signal.ts';
import type { AwaitedTask, EndedTask, WaitCommand } from '../domain/commands.ts';
import type { Instant, PartitionId, Pid } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { TaskEnd } from '../domain/task-end.ts';
import type { EngineState } from '../engine-state.ts';
import { Deadlines } from '../leasing/deadlines.ts';
import type { PlannedAtom } from '../planned-atom.ts';
import { sleep } from '../ports/sleep.ts';
import { AtomEnds, endOfDeleted, endOfLease } from './ends-in.ts';
import { findEnds } from './find-ends.ts';
import { TaskWait } from './task-wait.ts';

const RETRY_MS = 1000;
/** Tasks of waits that are answered or looked for before other calls have their turn. */
const TASKS_AT_ONCE = 2_000;

/**
 * WaitForTasks: answers a wait as soon as one of its tasks has ended.
 *
 *  E1  A wait notices every end that is committed after it has joined. It joins before it looks for earlier ends.
 *  E2  An answer leaves when the ends in it are durable. If their write fails, the wait looks again in the rebuilt memory.
 *  E3  A commit takes time in proportion to its changes and to the waits for them, and most of it in slices between other calls.
 */
export class TaskWaits {
  /** Those that notice ends. */
  readonly #index = new WaitIndex();
  /** All that are not answered. */
  readonly #waits = new Set<TaskWait>();
  readonly #deadlines: Deadlines<TaskWait>;
  #engineState: EngineState;

  constructor(engineState: EngineState) {
    this.#engineState = engineState;
    this.#deadlines = new Deadlines(engineState.clock, (wait) => this.#waitIsOver(wait));
    this.#listen(engineState);
  }

  get size(): number {
    return this.#waits.size;
  }

  /** Not an async function: its frame would be kept while the request waits. */
  wait(command: WaitCommand, signal: CallSignal | undefined): Promise<readonly EndedTask[]> {
    const { clock, config } = this.#engineState;
    const wait = new TaskWait(command, this.#engineState.partitionOf(command.group), signal);
    if (!wait.isPatient) {
      void this.#look(wait);
      return wait.answered;
    }
    if (this.#waits.size >= config.maxWaiters) throw tooMany(config.maxWaiters);
    if (signal?.aborted) throw cancelled();
    wait.leave = this.#leave;
    this.#waits.add(wait);
    this.#index.add(wait);
    wait.onAbort = () => wait.fail(cancelled());
    signal?.addEventListener('abort', wait.onAbort);
    wait.deadline = (clock.now() + command.waitMs) as Instant;
    this.#deadlines.add(wait);
    void this.#look(wait);
    return wait.answered;
  }

  /** Continues with rebuilt memory. */
  adopt(engineState: EngineState): void {
    this.#engineState = engineState;
    this.#listen(engineState);
    void this.#lookAgain();
  }

  /** Answers all waits: with nothing, or with the error. */
  dismiss(error?: Refusal): void {
    for (const wait of this.#waits) {
      if (wait.isToBeTold) wait.tell();
      else if (error) wait.fail(error);
      else wait.answer([]);
    }
  }

  /** Refuses the waits for tasks of a partition that this node has given up. */
  abandon(id: PartitionId): void {
    for (const wait of this.#waits) {
      if (wait.partition === id && !wait.isToBeTold) wait.fail(this.#engineState.holdings.notHolder(id));
    }
  }

  #listen(engineState: EngineState): void {
    engineState.watcher = {
      committed: (plan) => {
        if (this.#waits.size > 0 && this.#engineState === engineState) this.#committed(plan);
      },
    };
  }

  readonly #leave = (wait: TaskWait): void => {
    this.#waits.delete(wait);
    this.#index.remove(wait);
    this.#deadlines.remove(wait);
    if (wait.onAbort) wait.signal?.removeEventListener('abort', wait.onAbort);
  };

  /** A wait that has not looked yet ends with its look. */
  #waitIsOver(wait: TaskWait): void {
    if (wait.hasLooked) wait.answer([]);
    else wait.isLate = true;
  }

  /** All waits look, in slices (E3). */
  async #lookAgain(): Promise<void> {
    const engineState = this.#engineState;
    let looked = 0;
    for (const wait of [...this.#waits]) {
      if (looked > TASKS_AT_ONCE) {
        await sleep(engineState.clock, 0);
        looked = 0;
      }
      if (engineState !== this.#engineState) return;
      if (!this.#waits.has(wait) || wait.isToBeTold) continue;
      looked += wait.command.tasks.length;
      void this.#look(wait);
    }
  }

  /** Answers the wait if tasks have ended already, or if it does not wait. */
  async #look(wait: TaskWait): Promise<void> {
    const engineState = this.#engineState;
    const { holdings, admission } = engineState;
    try {
      await holdings.gate(wait.partition);
      const ended = await admission.run('new', 0, () => findEnds(engineState, wait.command));
      if (!holdings.holds(wait.partition)) throw holdings.notHolder(wait.partition);
      wait.hasLooked = true;
      if (ended.length > 0 || !wait.isPatient) wait.answer(ended);
    } catch (error) {
      // Memory is being rebuilt. The wait looks again then.
      if (wait.isPatient && (engineState.failed || engineState !== this.#engineState)) return;
      wait.fail(error);
    }
  }

  #committed(plan: PlannedAtom): void {
    const noted = new NotedEnds();
    const ends = new AtomEnds(plan);
    for (const planned of plan.changes) {
      const { queue, change } = planned;
      const waiting = change.kind === 'enqueue' ? undefined : this.#index.of(queue.fullName, change.pid);
      if (waiting === undefined || change.kind === 'enqueue') continue;
      if (change.kind === 'dequeue') noted.ofAll(waiting, ends.of(change, planned));
      else noted.ofEach(waiting, ({ token }) => endOfLease(change.after, token));
    }
    for (const { queue, reap } of plan.dropped ?? []) {
      // An empty queue that ends has no tasks.
      if (!reap) continue;
      const end = endOfDeleted(plan);
      for (const [, waiting] of this.#index.ofQueue(queue.fullName)) noted.ofAll(waiting, end);
    }
    if (noted.byWait.size > 0) this.#answer(noted.byWait);
  }

  /** Answers the waits when the ends are durable (E2), also if their time is over then. */
  #answer(noted: NotedEnds['byWait']): void {
    const engineState = this.#engineState;
    for (const [wait, ends] of noted) {
      wait.noted = ends;
      this.#deadlines.remove(wait);
    }
    engineState.durable().then(
      () => {
        for (const wait of noted.keys()) wait.isToBeTold = true;
        return this.#tell(engineState, noted.keys());
      },
      () => {
        for (const wait of noted.keys()) this.#goOn(wait, engineState);
      },
    );
  }

  /** Tells waits their ends, in slices (E3). Some may have left meanwhile. */
  async #tell({ clock }: EngineState, waits: Iterable<TaskWait>): Promise<void> {
    let told = 0;
    for (const wait of waits) {
      if (told > TASKS_AT_ONCE) {
        await sleep(clock, 0);
        told = 0;
      }
      if (!this.#waits.has(wait)) continue;
      told += wait.command.tasks.length;
      wait.tell();
    }
  }

  /** The ends of a wait were not written. */
  #goOn(wait: TaskWait, engineState: EngineState): void {
    if (!this.#waits.has(wait)) return;
    wait.noted = undefined;
    wait.hasLooked = false;
    this.#deadlines.add(wait);
    if (engineState !== this.#engineState) void this.#look(wait);
  }
}

/** The ends that an atom has for waits. */
class NotedEnds {
  /** By the place of the task in the wait. */
  readonly byWait = new Map<TaskWait, Map<number, TaskEnd>>();
  /** Tasks whose end all their waits have. */
  readonly #ofAll = new Set<Waiting>();

  /** The first end of a task counts: an atom may replace a task and end the new one, too. */
  ofAll(waiting: Waiting, end: TaskEnd): void {
    if (this.#ofAll.has(waiting)) return;
    this.#ofAll.add(waiting);
    this.ofEach(waiting, () => end);
  }

  /** `endFor`: undefined: the task has not ended for this wait. */
  ofEach(waiting: Waiting, endFor: (task: AwaitedTask) => TaskEnd | undefined): void {
    for (const [wait, places] of waiting) {
      // Later ends are for the next wait.
      if (wait.noted !== undefined) continue;
      if (typeof places === 'number') this.#note(wait, places, endFor);
      else for (const place of places) this.#note(wait, place, endFor);
    }
  }

  #note(wait: TaskWait, place: number, endFor: (task: AwaitedTask) => TaskEnd | undefined): void {
    const task = wait.command.tasks[place];
    const end = task && endFor(task);
    if (end === undefined) return;
    let ends = this.byWait.get(wait);
    if (ends === undefined) {
      ends = new Map();
      this.byWait.set(wait, ends);
    }
    if (!ends.has(place)) ends.set(place, end);
  }
}

const cancelled = (): Refusal => new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });

const tooMany = (limit: number): Refusal =>
  new Refusal('TOO_MANY_WAITERS', `${limit} calls wait for tasks to end already`, {
    retryDelayMs: RETRY_MS,
    metadata: { limit: String(limit) },
  });

/** The waits that name a task, each with the places of the task in it. Nearly all name it once. */
type Waiting = ReadonlyMap<TaskWait, number | readonly number[]>;

/** Waits by the tasks that they name. */
class WaitIndex {
  /** By full name of the queue, then by PID. */
  readonly #byQueue = new Map<string, Map<Pid, Map<TaskWait, number | readonly number[]>>>();
  readonly #waits = new Set<TaskWait>();

  add(wait: TaskWait): void {
    if (this.#waits.has(wait)) return;
    this.#waits.add(wait);
    for (const [index, { queue, pid }] of wait.command.tasks.entries()) {
      const name = formatQueueName(queue);
      let byPid = this.#byQueue.get(name);
      if (byPid === undefined) {
        byPid = new Map();
        this.#byQueue.set(name, byPid);
      }
      const waiting = byPid.get(pid);
      const places = waiting?.get(wait);
      if (waiting === undefined) byPid.set(pid, new Map([[wait, index]]));
      else if (places === undefined) waiting.set(wait, index);
      else waiting.set(wait, [places, index].flat());
    }
  }

  remove(wait: TaskWait): void {
    if (!this.#waits.delete(wait)) return;
    for (const { queue, pid } of wait.command.tasks) {
      const name = formatQueueName(queue);
      const byPid = this.#byQueue.get(name);
      const waiting = byPid?.get(pid);
      waiting?.delete(wait);
      if (waiting?.size === 0) byPid?.delete(pid);
      if (byPid?.size === 0) this.#byQueue.delete(name);
    }
  }

  /** Undefined: none. */
  of(queue: string, pid: Pid): Waiting | undefined {
    return this.#byQueue.get(queue)?.get(pid);
  }

  /** The awaited tasks of a queue. */
  ofQueue(queue: string): Iterable<readonly [Pid, Waiting]> {
    return this.#byQueue.get(queue) ?? [];
  }
}
