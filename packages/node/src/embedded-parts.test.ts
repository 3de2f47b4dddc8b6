import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type FlowHandle,
  pidText,
  type QueueEvent,
  type TaskMasterClient,
  UnrecoverableError,
} from '@taskmaster/client';
import { keptLog } from '@taskmaster/engine/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openEmbedded } from './embedded.ts';

/** What a test does each time when the directory is open. */
type Phase = (client: TaskMasterClient) => Promise<void>;

interface Part {
  readonly phases: readonly Phase[];
  /** Its phases so far. */
  played: Promise<void>;
}

const parts: Part[] = [];

/** A test with a group of its own. All tests share a directory, which is opened and closed for all of them together. */
function part(name: string, phasesIn: (group: string) => readonly Phase[]): void {
  const made: Part = { phases: phasesIn(`g${parts.length}`), played: Promise.resolve() };
  parts.push(made);
  test(name, () => made.played);
}

const dir = mkdtempSync(join(tmpdir(), 'taskmaster-embedded-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
beforeAll(async () => {
  const openings = Math.max(...parts.map(({ phases }) => phases.length));
  for (let at = 0; at < openings; at++) {
    await using client = await openEmbedded({ dir, store: { reserveBytes: 1024 * 1024 }, log: keptLog() });
    for (const one of parts) one.played = one.played.then(() => one.phases[at]?.(client));
    await Promise.allSettled(parts.map(({ played }) => played));
  }
});

const pids = (tasks: readonly { readonly pid: Uint8Array }[]): string[] => tasks.map(({ pid }) => pidText(pid));
const tasks = (count: number, options: object = {}) =>
  Array.from({ length: count }, (_, at) => ({ pid: `${at}`, data: at, ...options }));

part('a pause of a directory holds when it is opened again, and ends with a resume', (group) => [
  async (client) => {
    await client.pauseQueues(`${group}#*`, { reason: 'down', for: '1h' });
    await client.queue(`${group}#mail`).enqueue(1);
  },
  async (client) => {
    const queue = client.queue(`${group}#mail`);
    expect(await client.pauses(group)).toMatchObject([{ queues: `${group}#*`, reason: 'down' }]);
    expect(await queue.lease()).toEqual([]);
    await client.resumeQueues(`${group}#*`);
    expect(await queue.lease()).toHaveLength(1);
  },
]);

part('limits hold, also those of keys, and count the leases of before', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#calls`);
    await queue.limit({ maxLeased: 3 });
    await client.limitQueues(`${group}#*`, { keys: 'tenant/*', maxLeased: 1 });
    await queue.enqueueMany(tasks(3, { limitKey: 'tenant/1' }));
    await queue.enqueue(7, { pid: '7', limitKey: 'tenant/2' });
    await queue.enqueueMany([8, 9].map((data) => ({ pid: `${data}`, data })));
    expect(pids(await queue.lease({ leaseDuration: '1h' }))).toEqual(['0']);
  },
  async (client) => {
    const queue = client.queue(`${group}#calls`);
    expect(await client.limits(group)).toMatchObject([
      { queues: `${group}#calls`, maxLeased: 3, leased: 1 },
      { queues: `${group}#*`, keys: 'tenant/*', maxLeased: 1 },
    ]);
    expect(pids(await queue.lease({ max: 9, leaseDuration: '1h' }))).toEqual(['7', '8']);
    expect(await queue.lease({ max: 9 })).toEqual([]);
    await client.update().dequeue(queue, '0').commit();
    expect(pids(await queue.lease({ max: 9 }))).toEqual(['1']);
  },
]);

part('keys and full queues hold', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#jobs`);
    await client.queueSettings.put(`${group}#jobs`, { maxBacklog: 2, whenFull: 'drop-newest' });
    await queue.enqueue('first', { key: 'k' });
    await queue.enqueue('second', { pid: 'z' });
  },
  async (client) => {
    const queue = client.queue(`${group}#jobs`);
    expect((await queue.enqueue('third', { key: 'k' })).result).toBe('collapsed');
    expect((await queue.enqueue('fourth')).result).toBe('dropped');
  },
]);

part('a queue takes fair turns of its keys', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#reports`);
    await client.queueSettings.put(`${group}#reports`, { fairTurns: { weights: { b: 2 } } });
    await queue.enqueueMany(tasks(5, { limitKey: 'a' }));
    await queue.enqueue(9, { pid: '9', limitKey: 'b' });
  },
  async (client) => {
    expect(pids(await client.queue(`${group}#reports`).lease({ max: 2 })).toSorted()).toEqual(['0', '9']);
  },
]);

part('a flow goes on, is awaited from its handle, and its end is known after another start', (group) => {
  let flow: FlowHandle;
  return [
    async (client) => {
      const [cuts, films] = [client.queue(`${group}#cuts`), client.queue(`${group}#films`)];
      flow = await client
        .flow()
        .add('cut', cuts, 1)
        .add('sound', cuts, 2, { onFailure: 'continue' })
        .add('film', films, 3, { after: ['cut', 'sound'], signals: 1, collect: true })
        .commit();
      expect(await films.signal(flow.tasks[0]?.pid ?? '', { id: 'paid', data: 'yes' })).toBe('signalled');
      await (await cuts.lease())[0]?.complete({ result: 'cut' });
    },
    async (client) => {
      const [cuts, films] = [client.queue(`${group}#cuts`), client.queue(`${group}#films`)];
      expect(await films.lease()).toEqual([]);
      const ends = client.waitForFlow(flow, { timeout: '1m' });
      await (await cuts.lease())[0]?.deadLetter('broken');
      const [film] = await films.lease({ wait: '10s' });
      const came = await film?.signals();
      expect(came?.map(({ id, child, data }) => [id, child?.completed, data])).toEqual([
        ['paid', undefined, 'yes'],
        [undefined, true, 'cut'],
        [undefined, false, undefined],
      ]);
      await film?.complete({ result: 'film' });
      expect((await ends).get('film')).toMatchObject({ outcome: 'completed', result: 'film' });
    },
    async (client) => {
      expect((await client.waitForFlow(flow)).get('film')).toMatchObject({ outcome: 'completed', result: 'film' });
    },
  ];
});

part('the tasks of an order key stay one behind the other', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#changes`);
    for (const [at, pid] of ['c', 'b', 'a'].entries()) await queue.enqueue(at, { pid, orderKey: 'account' });
  },
  async (client) => {
    const queue = client.queue(`${group}#changes`);
    for (const pid of ['c', 'b', 'a']) {
      const leased = await queue.lease({ max: 9 });
      expect(pids(leased)).toEqual([pid]);
      await leased[0]?.complete();
    }
  },
]);

part('events go on behind a position, each once', (group) => {
  let after: string;
  return [
    async (client) => {
      const queue = client.queue(`${group}#mail`);
      after = await client.eventPosition(`${group}#*`);
      await queue.enqueue(1, { pid: 'a' });
      await (await queue.lease())[0]?.complete();
    },
    async (client) => {
      await client.queue(`${group}#mail`).enqueue(2, { pid: 'b' });
      const seen: QueueEvent[] = [];
      for await (const event of client.events(`${group}#*`, { after })) if (seen.push(event) === 4) break;
      expect(seen.map(({ kind, pid }) => `${kind} ${pid && pidText(pid)}`)).toEqual([
        'enqueued a',
        'leased a',
        'completed a',
        'enqueued b',
      ]);
    },
  ];
});

part('a task that has not started in time does not start later', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#codes`);
    await queue.enqueue(1, { pid: 'late', startWithin: 1, retry: { deadLetterQueue: `${group}#late` } });
    await queue.enqueue(2, { pid: 'in-time', startWithin: '1h' });
  },
  async (client) => {
    const queue = client.queue(`${group}#late`);
    expect(pids(await queue.lease({ wait: '10s' }))).toEqual(['late']);
    const [late] = await queue.get(['late']);
    expect(late?.failures.at(-1)?.error?.message).toMatch(/^not started by /);
    expect(pids(await client.queue(`${group}#codes`).lease({ max: 9 }))).toEqual(['in-time']);
  },
]);

part('a worker gets tasks of its kinds only', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#images`);
    for (const kind of ['resize@1', 'resize@2', 'thumb']) await queue.enqueue(kind, { pid: kind, kind });
  },
  async (client) => {
    const queue = client.queue(`${group}#images`);
    expect(pids(await queue.lease({ max: 9, kinds: ['*@2', 'thumb'] }))).toEqual(['resize@2', 'thumb']);
    expect(pids(await queue.lease({ max: 9, kinds: ['crop'] }))).toEqual([]);
  },
]);

part('a bulk run goes on, and is started once', (group) => {
  const options = { action: 'delete', queues: `${group}#old`, rate: 1, id: 'clean-up' } as const;
  return [
    async (client) => {
      await client.queue(`${group}#old`).enqueueMany(tasks(100));
      expect(await client.previewBulk(options)).toMatchObject({ tasks: 100, matched: 100 });
      await client.bulk(options);
    },
    async (client) => {
      const run = await client.bulk(options);
      expect(await run.progress()).toMatchObject({ state: 'running', tasks: 100 });
      expect(await run.cancel()).toBe(true);
      const { changed = 0 } = (await run.progress()) ?? {};
      expect((await client.queue(`${group}#old`).stats()).available).toBe(100 - changed);
    },
    async (client) => {
      expect(await client.bulkRuns(group)).toMatchObject([{ id: 'clean-up', state: 'cancelled' }]);
    },
  ];
});

part('the outcomes of a batch hold, and a worker goes on with the rest', (group) => {
  const seen: number[][] = [];
  const work = (client: TaskMasterClient, until: number) => {
    const done = Promise.withResolvers<void>();
    const worker = client.worker(
      client.queue<number>(`${group}#rows`),
      async (batch) => {
        seen.push(batch.map(({ data }) => data));
        return batch.map(({ data }) => (data === 1 ? new UnrecoverableError('no row') : { result: data }));
      },
      {
        batch: { max: 3 },
        concurrency: 1,
        prefetch: 0,
        onTaskCompleted: ({ pid }) => {
          if (pidText(pid) === `${until}`) done.resolve();
        },
      },
    );
    worker.start();
    return { worker, done: done.promise };
  };
  return [
    async (client) => {
      await client.queue(`${group}#rows`).enqueueMany(tasks(3));
      const { worker, done } = work(client, 2);
      await done;
      await worker.stop();
      await client.queue(`${group}#rows`).enqueueMany(tasks(5).slice(3));
    },
    async (client) => {
      expect(pids(await client.queue(`${group}#rows.dead`).peek())).toEqual(['1']);
      const { worker, done } = work(client, 4);
      await done;
      await worker.stop();
      expect(await client.queue(`${group}#rows`).waitForEnd('0')).toMatchObject({ outcome: 'completed', result: 0 });
      expect(seen).toEqual([
        [0, 1, 2],
        [3, 4],
      ]);
    },
  ];
});

part('checkpoints and what is counted of attempts hold', (group) => [
  async (client) => {
    const queue = client.queue(`${group}#long`);
    await queue.enqueue(1, { pid: 'a' });
    const [task] = await queue.lease();
    await task?.checkpoint(Buffer.from('page 3'));
    await task?.release({ interrupted: true });
  },
  async (client) => {
    const [task] = await client.queue(`${group}#long`).lease();
    expect([task?.attempt, Buffer.from(task?.previousCheckpoint ?? []).toString()]).toEqual([1, 'page 3']);
    expect(await client.queue(`${group}#long`).get(['a'])).toMatchObject([{ interruptions: 1 }]);
  },
]);
