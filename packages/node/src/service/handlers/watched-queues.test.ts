import { type Engine, MemoryStore, openEngine } from '@taskmaster/engine';
import { keptLog, SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import { type ListQueuesRequest, QueueOrder } from '@taskmaster/proto';
import { type CallerAccess, unlimitedAccess } from '@taskmaster/server/access';
import type { Caller } from '@taskmaster/server/calls';
import { accessOf, aLease, aList, anEnqueue, anUpdate, aRelease, bytes } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { createHandlers, type Handlers } from '../handlers.ts';
import { QueueWatch, STEP_MS } from '../watch/queue-watch.ts';

const BY_TROUBLE = { order: QueueOrder.QUEUE_ORDER_TROUBLE };
const MINUTE = 60_000;

class World {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly watch: QueueWatch;
  readonly handlers: Handlers;
  access: CallerAccess = unlimitedAccess;
  /** Pages of the engine that were read. */
  readonly pages = { count: 0 };
  #enqueued = 100;

  constructor(clock: VirtualClock, engine: Engine) {
    this.clock = clock;
    this.engine = engine;
    const counted = {
      figures: () => engine.figures(),
      partitions: engine.partitions,
      listQueues: (command: Parameters<Engine['listQueues']>[0]) => {
        this.pages.count++;
        return engine.listQueues(command);
      },
    };
    this.watch = new QueueWatch(counted, { wall: () => clock.wall() });
    this.handlers = createHandlers(engine, keptLog(), this.watch);
  }

  get caller(): Caller {
    return { address: '127.0.0.1:1', access: this.access, gone: false, signal: undefined };
  }

  async enqueue(...queues: readonly string[]): Promise<void> {
    for (const queue of queues) {
      const pid = bytes(String(this.#enqueued++));
      await this.handlers.updateTasks(anUpdate({ enqueue: [anEnqueue({ queue, pid })] }), this.caller);
    }
  }

  /** Lets time pass, with a sample every 10 s. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      await this.clock.advance(STEP_MS);
      await this.watch.sample();
    }
  }

  async list(change: Partial<ListQueuesRequest> = {}) {
    return this.handlers.listQueues(aList(change), this.caller);
  }

  /** All pages of a listing: the names on each. */
  async pagesOf(change: Partial<ListQueuesRequest>): Promise<string[]> {
    const pages: string[] = [];
    let pageToken = '';
    do {
      const page = await this.list({ ...change, pageToken });
      pages.push(page.queues.map(({ queue }) => queue).join(' '));
      pageToken = page.nextPageToken;
    } while (pageToken !== '' && pages.length < 100);
    return pages;
  }
}

async function open(): Promise<World> {
  const clock = new VirtualClock();
  await clock.advance(1_000_000);
  const engine = await openEngine({ store: new MemoryStore(), clock, random: new SeededRandom(1) });
  return new World(clock, engine);
}

describe('a listing by trouble', () => {
  /** The queues `c` and `a` have old tasks, those of `c` the oldest. All others are fine. */
  async function troubled(): Promise<World> {
    const world = await open();
    await world.watch.sample();
    await world.enqueue('g#c');
    await world.pass(MINUTE);
    await world.enqueue('g#a');
    await world.pass(12 * MINUTE);
    await world.enqueue('g#b', 'f#d', 'g#e');
    return world;
  }

  test('has the worst first, and then the others by name, on pages of any size', async () => {
    const world = await troubled();
    expect(await world.pagesOf({ ...BY_TROUBLE })).toEqual(['g#c g#a f#d g#b g#e']);
    expect(await world.pagesOf({ ...BY_TROUBLE, limit: 1 })).toEqual(['g#c', 'g#a', 'f#d', 'g#b', 'g#e']);
    expect(await world.pagesOf({ ...BY_TROUBLE, limit: 2 })).toEqual(['g#c g#a', 'f#d g#b', 'g#e']);
    expect(await world.pagesOf({ ...BY_TROUBLE, limit: 3 })).toEqual(['g#c g#a f#d', 'g#b g#e']);
    expect(await world.pagesOf({ limit: 3 })).toEqual(['f#d g#a g#b', 'g#c g#e']);
  });

  test('says what is wrong since when', async () => {
    const world = await troubled();
    const began = world.clock.wall() - 13 * MINUTE;
    const [first, , third] = (await world.list(BY_TROUBLE)).queues;
    expect(first?.watch?.troubles).toMatchObject([
      { kind: 'queue-unworked', message: 'nobody leases its 1 task', sinceIsExact: true, queue: 'g#c' },
      { kind: 'queue-old', sinceUnixMs: began + 10 * MINUTE, sinceIsExact: true },
    ]);
    expect(third?.watch?.troubles).toEqual([]);
    expect((await world.list()).queues.map(({ watch }) => watch)).toEqual(Array(5).fill(undefined));
  });

  test('takes filters and bounds, and shows what the caller may read', async () => {
    const world = await troubled();
    expect(await world.pagesOf({ ...BY_TROUBLE, filter: { nameRegex: '[ade]$' }, limit: 1 })).toEqual([
      'g#a',
      'f#d',
      'g#e',
    ]);
    expect(await world.pagesOf({ ...BY_TROUBLE, filter: { nameRegex: '', group: 'f' } })).toEqual(['f#d']);
    expect(await world.pagesOf({ ...BY_TROUBLE, filter: { nameRegex: '', minAvailable: 2 } })).toEqual(['']);
    const rules = accessOf({ principals: [{ name: 'p', tokens: [], rights: [{ groups: ['f'], allow: ['read'] }] }] });
    world.access = rules.identified('p');
    expect(await world.pagesOf({ ...BY_TROUBLE, limit: 1 })).toEqual(['f#d']);
  });

  test('goes on if a queue is fine again, or gone', async () => {
    const world = await troubled();
    const { nextPageToken: pageToken } = await world.list({ ...BY_TROUBLE, limit: 1 });
    await world.handlers.deleteQueue({ queue: 'g#a' }, world.caller);
    await world.pass(STEP_MS);
    expect((await world.list({ ...BY_TROUBLE, pageToken })).queues.map(({ queue }) => queue)).toEqual([
      'f#d',
      'g#b',
      'g#e',
    ]);
  });

  test('refuses a token of another order, or of nothing', async () => {
    const world = await troubled();
    const { nextPageToken: pageToken } = await world.list({ ...BY_TROUBLE, limit: 1 });
    const refused = { reason: 'INVALID_PAGE_TOKEN' };
    await expect(world.list({ pageToken })).rejects.toMatchObject(refused);
    await expect(world.list({ ...BY_TROUBLE, pageToken: 'x' })).rejects.toMatchObject(refused);
    await expect(world.list({ order: 7 as QueueOrder })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' });
  });
});

describe('samples of a queue', () => {
  test('are kept from the first request on, until nobody has asked for ten minutes', async () => {
    const world = await open();
    await world.enqueue('g#a');
    await world.handlers.leaseTasks(aLease({ queues: ['g#a'], leaseDurationMs: 86_400_000 }), world.caller);
    const ask = async () => {
      const { queues } = await world.handlers.getQueueStats(
        { queues: ['g#a'], filter: undefined, includeWatch: true },
        world.caller,
      );
      return queues[0]?.watch?.history;
    };
    await world.pass(MINUTE);
    expect(await ask()).toBeUndefined();
    await world.enqueue('g#a', 'g#a');
    await world.pass(3 * STEP_MS);
    expect(await ask()).toMatchObject({
      stepMs: STEP_MS,
      lastUnixMs: world.clock.wall(),
      available: [2, 2, 2],
      leased: [1, 1, 1],
      delayed: [0, 0, 0],
    });
    await world.pass(5 * MINUTE);
    const later = await ask();
    expect(later?.available.length).toBe(33);
    expect(later?.enqueueRate.length).toBe(33);
    await world.handlers.resetLeases({ queue: 'g#a' }, world.caller);
    await world.handlers.deleteQueue({ queue: 'g#a' }, world.caller);
    await world.pass(12 * MINUTE);
    expect(await ask()).toBeUndefined();
  });
});

describe('an overview', () => {
  test('has sums, rates and samples of the node', async () => {
    const world = await open();
    await world.watch.sample();
    await world.enqueue('g#a', 'g#b', 'g#b.dead');
    const { tasks } = await world.handlers.leaseTasks(
      aLease({ queues: ['g#a'], leaseDurationMs: 86_400_000 }),
      world.caller,
    );
    await world.pass(STEP_MS);
    const task = tasks[0];
    if (task === undefined) throw new Error('nothing was leased');
    await world.handlers.updateTasks(
      anUpdate({ release: [aRelease({ queue: 'g#a', pid: task.pid, leaseToken: task.leaseToken })] }),
      world.caller,
    );
    await world.pass(STEP_MS);
    const { nodes, unreachable } = await world.handlers.getOverview(
      { afterUnixMs: 0, includeChanges: false },
      world.caller,
    );
    expect(unreachable).toEqual([]);
    expect(nodes).toMatchObject([
      {
        totals: { queues: 3, available: 3, leased: 0, delayed: 0 },
        deadLettered: 1,
        rates: { enqueued: 0, leased: 0, completed: 0, failed: 0.1, deadLettered: 0 },
        history: {
          stepMs: STEP_MS,
          lastUnixMs: world.clock.wall(),
          available: [0, 2, 3],
          leased: [0, 1, 0],
          enqueued: [-1, 0.3, 0],
        },
      },
    ]);
    const { nodes: newer } = await world.handlers.getOverview(
      { afterUnixMs: world.clock.wall() - 1, includeChanges: false },
      world.caller,
    );
    expect(newer[0]?.history?.available).toEqual([3]);
  });

  test('names queues with trouble, the worst first, of the groups that the caller may read', async () => {
    const world = await open();
    await world.enqueue('g#a', 'f#b');
    await world.pass(12 * MINUTE);
    const troubles = async () =>
      (await world.handlers.getOverview({ afterUnixMs: 0, includeChanges: false }, world.caller)).nodes[0];
    expect((await troubles())?.troubles.map(({ kind, queue }) => `${kind} ${queue}`)).toEqual([
      'queue-unworked f#b',
      'queue-old f#b',
      'queue-unworked g#a',
      'queue-old g#a',
    ]);
    const rules = accessOf({ principals: [{ name: 'p', tokens: [], rights: [{ groups: ['g'], allow: ['read'] }] }] });
    world.access = rules.identified('p');
    expect(new Set((await troubles())?.troubles.map(({ queue }) => queue))).toEqual(new Set(['g#a']));
    expect((await troubles())?.troubledQueues).toBe(1);
    world.access = rules.identified('nobody');
    await expect(troubles()).rejects.toMatchObject({ reason: 'UNAUTHENTICATED' });
  });

  test('names a queue all of whose tasks have died, though no task is left in it', async () => {
    const world = await open();
    await world.watch.sample();
    await world.enqueue('g#a');
    const { tasks } = await world.handlers.leaseTasks(aLease({ queues: ['g#a'] }), world.caller);
    const { pid = bytes(''), leaseToken = 0 } = tasks[0] ?? {};
    const release = [aRelease({ queue: 'g#a', pid, leaseToken, deadLetter: true })];
    await world.handlers.updateTasks(anUpdate({ release }), world.caller);
    await world.pass(3 * MINUTE);
    const { nodes } = await world.handlers.getOverview({ afterUnixMs: 0, includeChanges: false }, world.caller);
    expect(nodes[0]?.troubles).toMatchObject([{ kind: 'queue-dying', queue: 'g#a' }]);
    expect(await world.pagesOf(BY_TROUBLE)).toEqual(['g#a.dead']);
  });

  test('looks at the queues at most every two seconds, however many ask', async () => {
    const world = await open();
    await world.enqueue('g#a');
    await world.clock.advance(STEP_MS);
    const ask = () => world.handlers.getOverview({ afterUnixMs: 0, includeChanges: false }, world.caller);
    await Promise.all(Array.from({ length: 50 }, ask));
    await Promise.all(Array.from({ length: 50 }, () => world.list(BY_TROUBLE)));
    expect(world.pages.count).toBe(1);
    await world.clock.advance(2_001);
    await ask();
    expect(world.pages.count).toBe(2);
  });

  test('tells what is unknown while the engine refuses to be read, and goes on afterwards', async () => {
    const world = await open();
    await world.enqueue('g#a');
    await world.watch.sample();
    await world.engine.stop();
    await world.pass(STEP_MS);
    const [node] = (await world.handlers.getOverview({ afterUnixMs: 0, includeChanges: false }, world.caller)).nodes;
    expect(node?.history?.available).toEqual([1, -1]);
    expect(node?.totals?.queues).toBe(1);
  });

  test('tells what it knows while a store does not answer, and waits for one answer only', async () => {
    const { engine, clock } = await open();
    let asked = 0;
    const { promise: answer, resolve } = Promise.withResolvers<void>();
    const silent = {
      figures: () => engine.figures(),
      partitions: engine.partitions,
      listQueues: async (command: Parameters<Engine['listQueues']>[0]) => {
        asked++;
        await answer;
        return engine.listQueues(command);
      },
    };
    const watch = new QueueWatch(silent, { wall: () => clock.wall(), patienceMs: 1 });
    const samples: Promise<void>[] = [];
    for (let n = 0; n < 3; n++) {
      samples.push(watch.sample());
      await clock.advance(STEP_MS);
    }
    const request = { afterUnixMs: 0, includeChanges: false };
    const node = await watch.overview(request, () => true);
    expect(node).toMatchObject({ totals: undefined, health: 'serving', history: { available: [-1, -1] } });
    expect(asked).toBe(1);
    resolve();
    await Promise.all(samples);
    await watch.sample();
    expect((await watch.overview(request, () => true)).totals).toMatchObject({ queues: 0 });
  });
});
