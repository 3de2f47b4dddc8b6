import { NOTHING_CHANGED } from '@taskmaster/proto';
import {
  type AwaitedTask,
  type CallSignal,
  type EndedTask,
  type Instant,
  type PartitionId,
  type Pid,
  Refusal,
  type TaskEnd,
  type WaitCommand,
} from '@taskmaster/server/domain';
import type { EngineState } from '../engine-state.ts';
import { Deadlines } from '../leasing/deadlines.ts';
import type { PlannedAtom } from '../planned-atom.ts';
import type { Queue } from '../queues/queue.ts';
import { endIn, endOfDeleted, endOfLease } from './ends-in.ts';
import { findEnds } from './find-ends.ts';
import { TaskWait } from './task-wait.ts';
import { WaitIndex } from './wait-index.ts';

const RETRY_MS = 1000;

/**
 * WaitForTasks: answers a wait as soon as one of its tasks has ended.
 *
 *  E1  A wait notices every end that is committed after it has joined. It joins before it looks for earlier ends.
 *  E2  An answer leaves when the ends in it are durable. If their write fails, the wait looks again in the rebuilt memory.
 */
export class TaskWaits {
  /** Those that notice ends. */
  readonly #index = new WaitIndex();
  /** All that are not answered. */
  readonly #waits = new Set<TaskWait>();
  readonly #deadlines: Deadlines<TaskWait>;
  #memory: EngineState;

  constructor(memory: EngineState) {
    this.#memory = memory;
    this.#deadlines = new Deadlines(memory.clock, (wait) => this.#waitIsOver(wait));
    this.#listen(memory);
  }

  get size(): number {
    return this.#waits.size;
  }

  /** Not an async function: its frame would be kept while the request waits. */
  wait(command: WaitCommand, signal: CallSignal | undefined): Promise<readonly EndedTask[]> {
    const { clock, config } = this.#memory;
    const wait = new TaskWait(command, this.#memory.partitionOf(command.group), signal);
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
  adopt(memory: EngineState): void {
    this.#memory = memory;
    this.#listen(memory);
    for (const wait of this.#waits) void this.#look(wait);
  }

  /** Answers all waits: with nothing, or with the error. */
  dismiss(error?: Refusal): void {
    for (const wait of this.#waits) {
      if (error) wait.fail(error);
      else wait.answer([]);
    }
  }

  /** Refuses the waits for tasks of a partition that this node has given up. */
  abandon(id: PartitionId): void {
    for (const wait of this.#waits) if (wait.partition === id) wait.fail(this.#memory.holdings.notHolder(id));
  }

  #listen(memory: EngineState): void {
    memory.watcher = {
      committed: (plan) => {
        if (this.#waits.size > 0 && this.#memory === memory) this.#committed(plan);
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

  /** Answers the wait if tasks have ended already, or if it does not wait. */
  async #look(wait: TaskWait): Promise<void> {
    const memory = this.#memory;
    const { holdings, admission } = memory;
    try {
      await holdings.gate(wait.partition);
      const ended = await admission.run('new', 0, () => findEnds(memory, wait.command));
      if (!holdings.holds(wait.partition)) throw holdings.notHolder(wait.partition);
      wait.hasLooked = true;
      if (ended.length > 0 || !wait.isPatient) wait.answer(ended);
    } catch (error) {
      // Memory is being rebuilt. The wait looks again then.
      if (wait.isPatient && (memory.failed || memory !== this.#memory)) return;
      wait.fail(error);
    }
  }

  #committed(plan: PlannedAtom): void {
    const ended = new Map<TaskWait, EndedTask[]>();
    for (const planned of plan.changes) {
      const { queue, change } = planned;
      const waits = change.kind === 'enqueue' ? undefined : this.#index.of(queue.fullName, change.pid);
      if (waits === undefined || change.kind === 'enqueue') continue;
      const end = change.kind === 'dequeue' ? endIn(plan, change, planned) : undefined;
      const endFor = ({ token }: AwaitedTask) => (change.kind === 'change' ? endOfLease(change.after, token) : end);
      note(ended, waits, queue, change.pid, endFor);
    }
    for (const { queue, reap } of plan.dropped ?? []) {
      // An empty queue that ends has no tasks.
      if (!reap) continue;
      const end = endOfDeleted(plan);
      for (const [pid, waits] of this.#index.ofQueue(queue.fullName)) note(ended, waits, queue, pid, () => end);
    }
    for (const [wait, tasks] of ended) this.#answer(wait, tasks);
  }

  /** Answers the wait when the ends are durable (E2), also if its time is over then. Later ends are for the next wait. */
  #answer(wait: TaskWait, ended: readonly EndedTask[]): void {
    const memory = this.#memory;
    this.#index.remove(wait);
    this.#deadlines.remove(wait);
    memory.durable().then(
      () => wait.answer(ended),
      () => {
        if (!this.#waits.has(wait)) return;
        this.#index.add(wait);
        wait.hasLooked = false;
        this.#deadlines.add(wait);
        if (memory !== this.#memory) void this.#look(wait);
      },
    );
  }
}

/** The first end of a task counts: an atom may replace a task and end the new one, too. `endFor`: undefined: it has not ended. */
function note(
  ended: Map<TaskWait, EndedTask[]>,
  waits: ReadonlySet<TaskWait>,
  { ledger }: Queue,
  pid: Pid,
  endFor: (task: AwaitedTask) => TaskEnd | undefined,
): void {
  for (const wait of waits) {
    const tasks = ended.get(wait) ?? [];
    for (const [index, task] of wait.placesOf(ledger.name.name, pid)) {
      const end = endFor(task);
      if (end !== undefined && !tasks.some((other) => other.index === index)) tasks.push({ index, end });
    }
    if (tasks.length > 0) ended.set(wait, tasks);
  }
}

const cancelled = (): Refusal => new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });

const tooMany = (limit: number): Refusal =>
  new Refusal('TOO_MANY_WAITERS', `${limit} calls wait for tasks to end already`, {
    retryDelayMs: RETRY_MS,
    metadata: { limit: String(limit) },
  });
