import type { RawService, StreamSession, UnaryHandler } from '@taskmaster/server/service';
import type { UnaryMethod } from '../upstream/upstream.ts';

const METHODS: readonly UnaryMethod[] = [
  ...(['UpdateTasks', 'LeaseTasks', 'BatchUpdateTasks', 'BatchLeaseTasks', 'ListQueues', 'GetQueueStats'] as const),
  ...(['PeekTasks', 'GetTasks', 'DeleteQueue', 'ResetLeases'] as const),
  ...(['PutQueueSettings', 'DeleteQueueSettings', 'ListQueueSettings'] as const),
  ...(['Subscribe', 'Unsubscribe', 'ListSubscriptions'] as const),
];

/** The service of a node whose answers a test chooses. */
export function scriptedService(serve: UnaryHandler, openStream: () => StreamSession = refuseStream): RawService {
  return { unary: Object.fromEntries(METHODS.map((method) => [method, serve])), openStream };
}

function refuseStream(): never {
  throw new TypeError('the test expects no stream');
}
