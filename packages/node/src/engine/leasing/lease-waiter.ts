import { formatQueueName, type QueueName } from '@taskmaster/proto';
import type { CallSignal, Instant, LeaseCommand, LeasedTask, PartitionId } from '@taskmaster/server/domain';
import type { Due } from './deadlines.ts';
import type { Waiting } from './wait-lines.ts';

const NOTHING = (): void => {};

/** From so many queues on a map finds one sooner than a walk; below it would be memory for nothing. */
const MANY_QUEUES = 16;

/**
 * One lease request, until it is answered. Most are in the turn in which they come, so this is on a hot path; and many
 * thousands may wait, so that every closure counts.
 */
export class LeaseWaiter implements Waiting, Due {
  readonly command: LeaseCommand;
  readonly signal: CallSignal | undefined;
  /** In the order in which the request names them, each once. */
  readonly queues: readonly QueueName[];
  /** Their full names. */
  readonly lines: readonly string[];
  /** Those of its queues; none where there is no cluster. */
  readonly partitions: ReadonlySet<PartitionId>;
  /** When it has waited for as long as it may; given to those that begin to wait. */
  deadline = 0 as Instant;
  order = 0;
  readonly answered: Promise<LeasedTask[]>;
  /** It waits until a partition may be changed again. */
  gated = false;
  /** It may be before it ever stands in line. */
  isAnswered = false;
  /** Refills it has waited for since it last saw a head that suffices. */
  refills = 0;
  /** Called when it is answered. */
  leave: ((waiter: LeaseWaiter) => void) | undefined;
  onAbort: (() => void) | undefined;
  #byLine: ReadonlyMap<string, QueueName> | undefined;
  #resolve: (tasks: Promise<LeasedTask[]> | LeasedTask[]) => void = NOTHING;
  #reject: (error: unknown) => void = NOTHING;

  constructor(command: LeaseCommand, partitions: ReadonlySet<PartitionId>, signal: CallSignal | undefined) {
    this.command = command;
    this.signal = signal;
    this.partitions = partitions;
    const { queues } = command;
    const [only] = queues;
    if (queues.length === 1 && only) {
      this.lines = [formatQueueName(only)];
      this.queues = queues;
    } else {
      const named = new Map(queues.map((name) => [formatQueueName(name), name]));
      this.lines = [...named.keys()];
      this.queues = [...named.values()];
      if (named.size >= MANY_QUEUES) this.#byLine = named;
    }
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Has no time to wait. */
  get impatient(): boolean {
    return this.command.waitMs === 0;
  }

  queueOf(line: string): QueueName | undefined {
    return this.#byLine ? this.#byLine.get(line) : this.queues[this.lines.indexOf(line)];
  }

  answer(tasks: Promise<LeasedTask[]> | LeasedTask[]): void {
    this.#end();
    this.#resolve(tasks);
  }

  fail(error: unknown): void {
    this.#end();
    this.#reject(error);
  }

  #end(): void {
    this.isAnswered = true;
    this.leave?.(this);
  }
}
