import { isTaskMasterError } from '@taskmaster/client';
import { connectionLost, type Fault } from '@taskmaster/client/testing';
import { SeededRandom } from '@taskmaster/engine/testing';
import { type Query, Relay } from '@taskmaster/outbox';
import { expect, test } from 'vitest';
import { clientSetUp } from '../client/support/client-set-up.ts';
import { openSqlite } from './databases.ts';

/** Histories of this run. More for a long one. */
const SEEDS = Number(process.env.TASKMASTER_SEEDS ?? 8);
const FIRST_SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const STEPS = 60;
const QUEUES = ['a#x', 'a#y', 'b#x'];

test.each(Array.from({ length: SEEDS }, (_, at) => FIRST_SEED + at))(
  'with lost, late and repeated requests and dying relays each task comes once and in order (seed %i)',
  async (seed) => {
    const random = new SeededRandom(seed);
    await using db = await openSqlite();
    const { client, transport, timing } = clientSetUp({ retry: { maxAttempts: 1 } });
    await using _closed = client;
    const enqueued = new Map(QUEUES.map((queue): [string, number[]] => [queue, []]));
    const taken = new Map(QUEUES.map((queue): [string, number[]] => [queue, []]));
    /** The chance that a statement of a relay fails, before or after it was carried out. */
    let trouble = 0.03;
    const query: Query = async (sql, params) => {
      if (random.chance(trouble)) throw new Error('the connection broke before');
      const rows = await db.query(sql, params);
      if (random.chance(trouble)) throw new Error('the connection broke after');
      return rows;
    };
    const newRelay = (): Relay =>
      new Relay({
        client,
        outbox: db.outbox,
        query,
        timing,
        batchTasks: 1 + random.int(5),
        takeOverAfter: random.int(3),
        onError: () => undefined,
        onLostMarker: (queue) => expect.fail(`the marker of ${queue} was lost`),
      });
    const relays = [newRelay(), newRelay()];

    async function deliver(): Promise<void> {
      const straggler = transport.stragglers.splice(random.int(transport.stragglers.length), 1)[0];
      try {
        await straggler?.();
      } catch (error) {
        // The node refuses what comes too late.
        if (!isTaskMasterError(error)) throw error;
      }
    }

    async function work(): Promise<void> {
      for (const queue of QUEUES) {
        const leased = await client.queue<number>(queue).lease({ max: 1_000 });
        for (const task of leased) {
          taken.get(queue)?.push(task.data);
          await task.complete();
        }
      }
    }

    const steps: (() => unknown)[] = [
      async () => {
        const queue = QUEUES[random.int(QUEUES.length)] ?? '';
        const ids = Array.from({ length: 1 + random.int(6) }, () => random.int(1e9));
        enqueued.get(queue)?.push(...ids);
        await db.outbox.enqueueMany(
          db.query,
          ids.map((id) => client.queue<number>(queue).task(id)),
        );
      },
      () => relays[random.int(relays.length)]?.drain(),
      () => Promise.all(relays.map((relay) => relay.drain())),
      () => {
        // The process dies: nothing of it is left but what it has sent.
        relays[random.int(relays.length)] = newRelay();
      },
      () => {
        const when = (['before', 'after', 'late'] satisfies Fault['when'][])[random.int(3)] ?? 'after';
        const faults = random.chance(0.8) ? transport.faults.updateTasks : transport.faults.getTasks;
        faults.push({ when, error: connectionLost() });
      },
      deliver,
      async () => {
        transport.faults.updateTasks.length = 0;
        await work();
      },
      // Request ids are forgotten, and rests end.
      () => timing.advance(random.int(400_000)),
    ];
    for (let step = 0; step < STEPS; step++) await steps[random.int(steps.length)]?.();

    trouble = 0;
    transport.faults.updateTasks.length = 0;
    transport.faults.getTasks.length = 0;
    await timing.advance(300_000);
    for (let round = 0; round < 100 && (await db.outbox.stats(db.query)).pending > 0; round++) await newRelay().drain();
    while (transport.stragglers.length > 0) await deliver();
    await newRelay().drain();
    await work();
    expect(taken).toEqual(enqueued);
    expect(await db.outbox.stats(db.query)).toMatchObject({ pending: 0, refused: 0 });
  },
);
