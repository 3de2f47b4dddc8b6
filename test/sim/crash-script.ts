import { type EngineHarness, pidsOf } from '@taskmaster/engine/testing';
import { EnqueueMode } from '@taskmaster/proto';

/** The lease tokens of a run of the script, by PID. */
export type Tokens = Map<string, number>;

export type ScriptCall = (h: EngineHarness, tokens: Tokens) => Promise<unknown>;

/**
 * Concurrent calls, or time that passes, in ms. The calls of a turn have one group, because a crash may keep the changes of
 * one group and lose those of another.
 */
export type ScriptTurn = readonly ScriptCall[] | number;

const FETCH = 'crawl#fetch';
const INDEX = 'crawl#index';
const OTHER = 'other';
const FLOW = 'crawl#flow';

const enqueue =
  (queue: string, ...pids: string[]): ScriptCall =>
  (h) =>
    h.enqueue(queue, pids);

const fifo =
  (queue: string, data: string): ScriptCall =>
  (h) =>
    h.update({ enqueue: [{ queue, data }] });

const lease =
  (queue: string, max: number, leaseDurationMs: number): ScriptCall =>
  async (h, tokens) => {
    for (const { pid, token } of await h.lease(queue, { max, for: leaseDurationMs })) tokens.set(pid, token);
  };

const complete =
  (queue: string, ...pids: string[]): ScriptCall =>
  (h, tokens) =>
    h.update({ dequeue: pids.map((pid) => ({ queue, pid, token: tokens.get(pid) })) });

/**
 * A workload with everything that an engine writes: PIDs and FIFO, leases, an atomic move, renewal, release, delays, expiry, a
 * dead letter, checkpoints (every 500 ms), a deleted and reaped queue, a reset of leases, a queue that is created again, and
 * queues that flow: the rows of their new tasks follow with the checkpoint.
 */
export const SCRIPT: readonly ScriptTurn[] = [
  [enqueue(FETCH, 'a', 'b', 'c'), fifo(FETCH, 'first')],
  [fifo(OTHER, 'elsewhere')],
  [fifo(FETCH, 'second')],
  [lease(FETCH, 3, 2000)],
  [
    (h, tokens) =>
      h.update({
        dequeue: [{ queue: FETCH, pid: 'a', token: tokens.get('a') }],
        enqueue: [
          { queue: INDEX, pid: 'a', data: 'fetched a' },
          { queue: FETCH, pid: 'a', data: 'again a', delay: 3000 },
        ],
        id: 'move-a',
      }),
  ],
  [(h, tokens) => h.update({ renew: [{ queue: FETCH, pid: 'b', token: tokens.get('b'), for: 10_000 }] })],
  600,
  [
    (h, tokens) => h.update({ release: [{ queue: FETCH, pid: 'c', token: tokens.get('c'), delay: 1000 }] }),
    (h) => h.update({ enqueue: [{ queue: INDEX, pid: 'poison', retry: { maxAttempts: 1 } }] }),
    (h) => h.update({ enqueue: [{ queue: INDEX, pid: 'later', data: 'later', delay: 700 }] }),
  ],
  [lease(INDEX, 2, 400)],
  1100,
  // Searches for due tasks: the lease of `a` expires, `poison` becomes a dead letter, `later` becomes available.
  [
    async (h) => {
      const pids = pidsOf(await h.lease(INDEX, { max: 1, for: 60_000 }));
      if (pids.join() !== 'a') throw new Error(`the script leased ${pids}`);
    },
  ],
  [(h) => h.engine.resetLeases({ group: 'crawl', name: 'fetch' })],
  [enqueue('short', 'x', 'y'), lease(OTHER, 1, 300)],
  [(h) => h.engine.deleteQueue({ group: '', name: 'short' })],
  [enqueue('short', 'z')],
  600,
  [(h) => h.update({ dequeue: [{ queue: 'short', pid: 'z' }] })],
  600,
  [enqueue(FLOW, 'f0')],
  [lease(FLOW, 1, 60_000)],
  [enqueue(FLOW, 'f1', 'f2', 'f3', 'f4', 'f5')],
  [lease(FLOW, 3, 60_000)],
  [complete(FLOW, 'f0', 'f1')],
  [
    (h) =>
      h.update({ enqueue: [{ queue: FLOW, pid: 'f4', data: 'replaced', mode: EnqueueMode.ENQUEUE_MODE_REPLACE }] }),
  ],
  [(h) => h.update({ dequeue: [{ queue: FLOW, pid: 'f5' }], enqueue: [{ queue: FLOW, pid: 'f5', data: 'again' }] })],
  600,
  [complete(FLOW, 'f2'), enqueue(FLOW, 'f6')],
  // Such a queue is deleted, and created again.
  [enqueue('gone', 'g0')],
  [lease('gone', 1, 60_000)],
  [enqueue('gone', 'g1')],
  [(h) => h.engine.deleteQueue({ group: '', name: 'gone' })],
  [enqueue('gone', 'g1')],
  600,
];
