import { isTaskMasterError, type TaskMasterClient } from '@taskmaster/client';
import { CONTEXT } from '@taskmaster/client/internal';
import type { SentBatch } from './lane-sender.ts';
import type { OutboxStats } from './outbox.ts';

type Meter = NonNullable<TaskMasterClient[typeof CONTEXT]['telemetry']['meter']>;

/** Metrics of a relay, at the meter of its client. Without an SDK nothing is recorded. */
export class RelayMetrics {
  readonly #client: TaskMasterClient;
  readonly #stats: () => Promise<OutboxStats>;
  #meter: Meter | undefined;
  #instruments: ReturnType<typeof instrumentsOf> | undefined;
  #unobserve: () => void = () => undefined;

  /** @param stats reads what waits, for each collection of metrics. */
  constructor(client: TaskMasterClient, stats: () => Promise<OutboxStats>) {
    this.#client = client;
    this.#stats = stats;
  }

  /** To be called now and then: an SDK may be registered at any time. */
  look(): void {
    const { meter } = this.#client[CONTEXT].telemetry;
    if (meter === this.#meter) return;
    this.stop();
    this.#meter = meter;
    this.#instruments = meter && instrumentsOf(meter);
    if (meter !== undefined) this.#unobserve = this.#observe(meter);
  }

  stop(): void {
    this.#unobserve();
    this.#unobserve = () => undefined;
    this.#meter = undefined;
    this.#instruments = undefined;
  }

  sent({ tasks, lagMs, tookMs }: SentBatch): void {
    this.#instruments?.sent.add(tasks);
    this.#instruments?.delay.record((lagMs + tookMs) / 1000);
  }

  refused(): void {
    this.#instruments?.refused.add(1);
  }

  failed(error: unknown): void {
    this.#instruments?.failures.add(1, { 'error.type': isTaskMasterError(error) ? error.reason : 'database' });
  }

  #observe(meter: Meter): () => void {
    const waiting = meter.createObservableGauge('taskmaster.outbox.waiting_tasks', {
      description: 'Tasks in the outbox that no node has yet.',
      unit: '{task}',
    });
    const oldest = meter.createObservableGauge('taskmaster.outbox.oldest_age', {
      description: 'Age of the oldest task in the outbox.',
      unit: 's',
    });
    const observe: Parameters<Meter['addBatchObservableCallback']>[0] = async (result) => {
      // The relay reports a database that does not answer. There is no value then.
      const stats = await this.#stats().catch(() => undefined);
      if (stats === undefined) return;
      result.observe(waiting, stats.pending);
      result.observe(oldest, stats.oldestMs / 1000);
    };
    meter.addBatchObservableCallback(observe, [waiting, oldest]);
    return () => meter.removeBatchObservableCallback(observe, [waiting, oldest]);
  }
}

function instrumentsOf(meter: Meter) {
  return {
    sent: meter.createCounter('taskmaster.outbox.sent_tasks', {
      description: 'Tasks that the relay has taken to the node.',
      unit: '{task}',
    }),
    refused: meter.createCounter('taskmaster.outbox.refused_tasks', {
      description: 'Tasks that the node refuses for good.',
      unit: '{task}',
    }),
    failures: meter.createCounter('taskmaster.outbox.failures', {
      description: 'Failed attempts of the relay. Each is repeated.',
      unit: '{attempt}',
    }),
    delay: meter.createHistogram('taskmaster.outbox.delay', {
      description: 'Time from the enqueue of the oldest task of a batch until the node has the batch on its disk.',
      unit: 's',
      advice: {
        explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600],
      },
    }),
  };
}
