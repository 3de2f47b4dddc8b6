import type { FinalTask, HistoryEvent } from '@taskmaster/cli/testing/history';
import { parseQueueName, partitionOf } from '@taskmaster/proto';

/** The groups outside of lost partitions: only their calls and tasks are checked fully. */
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
    // All items are of one group.
    const [first] = [...call.enqueue, ...call.dequeue, ...call.renew, ...call.release];
    return first && this.#isKept(first.queue) ? event : undefined;
  }

  #isKept(queue: string): boolean {
    return !this.#lost.has(partitionOf(parseQueueName(queue).group, this.#partitions));
  }
}
