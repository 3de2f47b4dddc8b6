import { bytesCodec, type TaskMasterClient } from '@taskmaster/client';
import type { Operation } from './jobs.ts';
import { payload } from './payload.ts';
import type { Operate } from './run-loop.ts';

type Contended = Extract<Operation, { readonly kind: 'contended' }>;

/** In each of the queues, the task that updates meet at. */
const MEETING_PID = 'meet';

/**
 * Updates that each write one task by its PID: that of all others with a certain probability, else one that nobody else has.
 * The task is replaced if it is there, so that there is something to write each time.
 */
export function openContended(client: TaskMasterClient, operation: Contended): Operate {
  const queues = Array.from({ length: operation.queues }, (_, number) =>
    client.queue(`${operation.queue}-${number}`, { codec: bytesCodec }),
  );
  // Behind one another in a few queues; each run has queues of its own.
  let unique = 0;
  let next = 0;
  const update: Operate = async () => {
    const queue = queues[next++ % queues.length];
    const pid = Math.random() < operation.collide ? MEETING_PID : `own-${unique++}`;
    // Its own request id: the client would make one request of several otherwise, which then cannot collide.
    await queue?.enqueue(payload(), { pid, mode: 'replace', requestId: `${operation.queue} ${next}` });
    return 1;
  };
  return operation.sequential ? oneAfterTheOther(update) : update;
}

/** As a system would do it that lets every update wait for all before it. */
function oneAfterTheOther(operate: Operate): Operate {
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    const mine = last.then(operate);
    last = mine;
    return mine;
  };
}
