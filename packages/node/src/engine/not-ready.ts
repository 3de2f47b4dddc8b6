import { NOTHING_CHANGED } from '@taskmaster/proto';
import { type EngineHealth, Refusal } from '@taskmaster/server/domain';

/** What callers of an engine are told that does not serve them now. */
export function notReady(health: EngineHealth): Refusal {
  switch (health.kind) {
    case 'starting':
    case 'serving':
    case 'full':
      return new Refusal('STARTING', 'the node is recovering', { retryDelayMs: 200 });
    case 'stopping':
      return new Refusal('SHUTTING_DOWN', 'the node is shutting down', { retryDelayMs: 1000 });
    case 'failed':
      return new Refusal('STORE_FAILED', 'a write to the store failed; this node takes no more writes', {
        cause: health.cause,
        // Who comes now was not in that write.
        metadata: NOTHING_CHANGED,
      });
    default:
      return health satisfies never;
  }
}
