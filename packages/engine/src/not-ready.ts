import { NOTHING_CHANGED } from '@taskmaster/proto';
import type { EngineHealth } from './domain/commands.ts';
import { Refusal } from './domain/refusal.ts';
import { StoreLostError } from './ports/store.ts';
import { lostStore } from './store-refusal.ts';

/** The refusal of an engine that cannot serve a request now. */
export function notReady(health: EngineHealth): Refusal {
  switch (health.kind) {
    case 'starting':
    case 'serving':
    case 'full':
      return new Refusal('STARTING', 'the node is recovering', { retryDelayMs: 200 });
    case 'stopping':
      return new Refusal('SHUTTING_DOWN', 'the node is shutting down', { retryDelayMs: 1000 });
    case 'failed':
      if (health.cause instanceof StoreLostError) return lostStore(health.cause);
      return new Refusal('STORE_FAILED', 'a write to the store failed; this node takes no more writes', {
        cause: health.cause,
        // This request was not part of the failed write.
        metadata: NOTHING_CHANGED,
      });
    default:
      return health satisfies never;
  }
}
