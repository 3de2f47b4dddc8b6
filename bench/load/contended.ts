import { bytesCodec, type TaskMasterClient } from '@taskmaster/client';
import type { Operation } from './jobs.ts';
import { payload } from './payload.ts';
import type { Operate } from './run-loop.ts';

type Contended = Extract<Operation, { readonly kind: 'contended' }>;

/** PID of the task in each queue that updates share. */
const MEETING_PID = 'meet';

/**
 * Updates that each write one task by its PID. With probability `collide` it is the shared PID, otherwise a unique one. An
 * existing task is replaced, so that each update writes.
 */
export function openContended(client: TaskMasterClient, operation: Contended): Operate {
  const queues = Array.from({ length: operation.queues }, (_, number) =>
    client.queue(`${operation.queue}-${number}`, { codec: bytesCodec }),
  );
  // In turn over a few queues. Each run has its own queues.
  let unique = 0;
  let next = 0;
  const update: Operate = async () => {
    const queue = queues[next++ % queues.length];
    const pid = Math.random() < operation.collide ? MEETING_PID : `own-${unique++}`;
    // With its own request id. Otherwise the client would join several updates into one request, and they could not collide.
    await queue?.enqueue(payload(), { pid, mode: 'replace', requestId: `${operation.queue} ${next}` });
    return 1;
  };
  return operation.sequential ? oneAfterTheOther(update) : update;
}

/** Makes every update wait for all earlier ones, as in a system with one lock. */
function oneAfterTheOther(operate: Operate): Operate {
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    const mine = last.then(operate);
    last = mine;
    return mine;
  };
}
