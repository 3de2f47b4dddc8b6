import { parseQueueName, partitionOf } from '@taskmaster/proto';
import type { HistoryEvent } from '../../support/history.ts';
import type { FinalTask } from '../../support/history-checker.ts';

/** What there is to judge once partitions were given up: everything that has nothing to do with them. */
export class KeptGroups {
  readonly #lost: ReadonlySet<number>;
  readonly #partitions: number;

  constructor(lost: ReadonlySet<number>, partitions: number) {
    this.#lost = lost;
    this.#partitions = partitions;
  }

  events(events: readonly HistoryEvent[]): readonly HistoryEvent[] {
    return this.#lost.size === 0 ? events : events.flatMap((event) => this.#keptOf(event) ?? []);
  }

  tasks(tasks: readonly FinalTask[]): readonly FinalTask[] {
    return tasks.filter(({ queue }) => this.#isKept(queue));
  }

  #keptOf(event: HistoryEvent): HistoryEvent | undefined {
    const { call, outcome } = event;
    if (outcome.kind === 'leased') {
      return { ...event, outcome: { ...outcome, tasks: outcome.tasks.filter(({ queue }) => this.#isKept(queue)) } };
    }
    if (call.kind !== 'update') return event;
    // All of it is of one group.
    const [first] = [...call.enqueue, ...call.dequeue, ...call.renew, ...call.release];
    return first && this.#isKept(first.queue) ? event : undefined;
  }

  #isKept(queue: string): boolean {
    return !this.#lost.has(partitionOf(parseQueueName(queue).group, this.#partitions));
  }
}
