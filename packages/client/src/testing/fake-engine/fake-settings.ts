import {
  EnqueueMode,
  type ListQueueSettingsResponse,
  limits,
  parseQueueName,
  type QueueSettings,
} from '@taskmaster/proto';

/** Settings of queues. What applies to a queue are those that were put for its name, or else the defaults. */
export class FakeSettings {
  readonly #byQueues = new Map<string, QueueSettings>();

  put({ queues, settings }: { readonly queues: string; readonly settings?: QueueSettings | undefined }): object {
    if (settings !== undefined) this.#byQueues.set(queues, { ...settings, queues });
    return {};
  }

  delete(queues: string): boolean {
    return this.#byQueues.delete(queues);
  }

  list(queue: string): ListQueueSettingsResponse {
    const { group, name } = parseQueueName(queue);
    const settings = [...this.#byQueues.values()].filter(({ queues }) => parseQueueName(queues).group === group);
    return { settings, effective: name === '' ? undefined : this.#effective(queue) };
  }

  #effective(queue: string): QueueSettings {
    const own = this.#byQueues.get(queue);
    return {
      queues: queue,
      retry: own?.retry ?? {
        maxAttempts: limits.defaultMaxAttempts,
        deadLetterQueue: '',
        backoffInitialMs: limits.defaultBackoffInitialMs,
        backoffMaxMs: limits.defaultBackoffMaxMs,
      },
      deadLetterQueue: own?.deadLetterQueue || `${queue}.dead`,
      leaseDurationMs: own?.leaseDurationMs || limits.defaultLeaseDurationMs,
      mode: own?.mode || EnqueueMode.ENQUEUE_MODE_COLLAPSE,
      resultRetentionMs: own?.resultRetentionMs || limits.defaultResultRetentionMs,
      keepOutMs: own?.keepOutMs ?? 0,
      timeLimitMs: own?.timeLimitMs ?? 0,
    };
  }
}
