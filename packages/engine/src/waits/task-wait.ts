import type { CallSignal } from '../domain/call-signal.ts';
import type { EndedTask, WaitCommand } from '../domain/commands.ts';
import type { Instant, PartitionId } from '../domain/ids.ts';
import type { TaskEnd } from '../domain/task-end.ts';
import type { Due } from '../leasing/deadlines.ts';

const NOTHING = (): void => {};

/** One wait for tasks until it is answered. */
export class TaskWait implements Due {
  readonly command: WaitCommand;
  readonly partition: PartitionId;
  readonly signal: CallSignal | undefined;
  readonly answered: Promise<readonly EndedTask[]>;
  /** End of its wait. Set when it starts to wait. */
  deadline = 0 as Instant;
  order = 0;
  /** True after a look has found that none of its tasks has ended. Its wait does not end before that. */
  hasLooked = false;
  /** True if its wait was over before it had looked. */
  isLate = false;
  /** Ends of its tasks that were committed, by their places in the command. Later ends are for the next wait. */
  noted: ReadonlyMap<number, TaskEnd> | undefined;
  /** True if these ends are durable, so that it is only to be answered. */
  isToBeTold = false;
  onAbort: (() => void) | undefined;
  /** Called when it is answered. */
  leave: ((wait: TaskWait) => void) | undefined;
  #resolve: (ended: readonly EndedTask[]) => void = NOTHING;
  #reject: (error: unknown) => void = NOTHING;

  constructor(command: WaitCommand, partition: PartitionId, signal: CallSignal | undefined) {
    this.command = command;
    this.partition = partition;
    this.signal = signal;
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** True if it may still wait. */
  get isPatient(): boolean {
    return this.command.waitMs > 0 && !this.isLate;
  }

  /** Has no effect after the first answer. */
  answer(ended: readonly EndedTask[]): void {
    this.leave?.(this);
    this.#resolve(ended.map((each) => this.#forCaller(each)));
  }

  /** Answers it with the ends that were noted. */
  tell(): void {
    this.answer([...(this.noted ?? [])].map(([index, end]) => ({ index, end })));
  }

  /** A caller with a lease token may only have the right to lease: it does not see results and errors. */
  #forCaller({ index, end }: EndedTask): EndedTask {
    if (this.command.tasks[index]?.token === undefined) return { index, end };
    return { index, end: { ...end, result: undefined, error: undefined } };
  }

  fail(error: unknown): void {
    this.leave?.(this);
    this.#reject(error);
  }
}
