import { EventKind, partitionOf, type Event as WireEvent } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { formatPosition, parsePosition } from '../domain/events.ts';
import type { PartitionId, Ticket } from '../domain/ids.ts';
import type { Refusal } from '../domain/refusal.ts';
import { Family } from '../ports/store.ts';
import { EngineHarness, engineHarness, type HarnessOptions } from '../testing/engine-harness.ts';
import { SeededRandom } from '../testing/seeded-random.ts';

const QUEUE = 'g#q';
const MINUTE = 60_000;

const pidIn = (event: Pick<WireEvent, 'pid'>): string => Buffer.from(event.pid).toString();
const nameOf = ({ kind }: WireEvent): string | undefined =>
  Object.entries(EventKind)
    .find(([, one]) => one === kind)?.[0]
    .slice('EVENT_KIND_'.length);
const shown = (event: WireEvent): string =>
  event.kind === EventKind.EVENT_KIND_MISSED ? 'missed' : `${nameOf(event)} ${pidIn(event)}`;

/** Reads one page after another. It keeps its position only. */
class Reader {
  after: string | undefined;
  readonly #h: EngineHarness;

  constructor(h: EngineHarness) {
    this.#h = h;
  }

  async read(spec: Parameters<EngineHarness['readEvents']>[1] = {}, h = this.#h): Promise<string[]> {
    const after = this.after === undefined ? {} : { after: this.after };
    const { events, position } = await h.readEvents('g#*', { ...after, ...spec });
    this.after = formatPosition(position);
    return events.map(shown);
  }
}

async function withReader(options: HarnessOptions = {}) {
  const h = await engineHarness(options);
  const reader = new Reader(h);
  await h.clock.run(reader.read());
  return { h, reader };
}

const refusalOf = (call: Promise<unknown>): Promise<Refusal> =>
  call.then(
    () => expect.unreachable('was not refused'),
    (error: Refusal) => error,
  );

const logEntries = (h: EngineHarness): number => h.disk.rowsOf(Family.log).length;

test('names that somebody reads once keep no reader out', async () => {
  const { h, reader } = await withReader();
  await using _ = h;
  const waiting = h.readEvents('waits#*', { wait: 3_600_000 });
  await h.clock.advance(1);
  await Promise.all(Array.from({ length: 10_000 }, (_, at) => h.readEvents(`invented-${at}#*`)));
  await h.enqueue('waits#q', ['a']);
  expect((await h.clock.run(waiting)).events.map(pidIn)).toEqual(['a']);
  // It was read longest ago, and is told.
  await h.enqueue(QUEUE, ['b']);
  expect(await reader.read()).toEqual(['missed']);
  await h.enqueue(QUEUE, ['c']);
  expect(await reader.read()).toEqual(['ENQUEUED c']);
});

describe('a reader', () => {
  test('gets what happens after it has begun, page by page, each event once', async () => {
    const h = await engineHarness();
    await using _ = h;
    await h.enqueue(QUEUE, ['before']);
    const reader = new Reader(h);
    expect(await reader.read()).toEqual([]);
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    await h.enqueue(QUEUE, ['d']);
    expect(await reader.read({ most: 2 })).toEqual(['ENQUEUED a', 'ENQUEUED b']);
    expect(await reader.read({ most: 2 })).toEqual(['ENQUEUED c', 'ENQUEUED d']);
    expect(await reader.read()).toEqual([]);
  });

  test('may go on behind every single event', async () => {
    const { h, reader } = await withReader();
    await using _ = h;
    const { after: begin = '' } = reader;
    await h.enqueue(QUEUE, ['a', 'b', 'c']);
    const { events } = await h.readEvents('g#*', { after: begin });
    expect(new Set(events.map(({ position }) => position)).size).toBe(3);
    for (const [index, { position }] of events.entries()) {
      const rest = await h.readEvents('g#*', { after: position });
      expect(rest.events.map(pidIn)).toEqual(['a', 'b', 'c'].slice(index + 1));
    }
  });

  test('that waits gets the next event that it wants, and nothing after its time', async () => {
    const { h, reader } = await withReader();
    await using _ = h;
    const waiting = reader.read({ wait: MINUTE, pid: 'b' });
    await h.clock.advance(10);
    expect(h.engine.figures().eventReaders).toBe(1);
    await h.enqueue(QUEUE, ['a']);
    await h.clock.advance(10);
    await h.enqueue(QUEUE, ['b']);
    expect(await h.clock.run(waiting)).toEqual(['ENQUEUED b']);
    expect(await h.clock.run(reader.read({ wait: MINUTE }))).toEqual([]);
    expect(h.engine.figures().eventReaders).toBe(0);
  });

  test('is told nothing that is not durable', async () => {
    const { h, reader } = await withReader({ syncMs: 100 });
    await using _ = h;
    let events: string[] | undefined;
    const waiting = reader.read({ wait: MINUTE }).then((read) => {
      events = read;
    });
    await h.clock.advance(500);
    const enqueued = h.enqueue(QUEUE, ['a']);
    await h.clock.advance(90);
    expect(events).toBeUndefined();
    await h.clock.advance(20);
    await Promise.all([enqueued, waiting]);
    expect(events).toEqual(['ENQUEUED a']);
  });

  test('ends if its caller gives up, or the engine stops', async () => {
    const { h, reader } = await withReader();
    const abort = new AbortController();
    const given = refusalOf(h.readEvents('g#*', { wait: MINUTE, signal: abort.signal }));
    const stopped = reader.read({ wait: MINUTE });
    await h.clock.advance(1);
    abort.abort();
    expect(await given).toMatchObject({ reason: 'CANCELLED', metadata: { nothing_changed: 'true' } });
    await h[Symbol.asyncDispose]();
    expect(await stopped).toEqual([]);
  });

  test('is refused if too many wait', async () => {
    const { h, reader } = await withReader({ config: { maxWaiters: 1 } });
    await using _ = h;
    const first = reader.read({ wait: 1_000 });
    await h.clock.advance(1);
    expect(await refusalOf(h.readEvents('g#*', { wait: 1_000 }))).toMatchObject({
      reason: 'TOO_MANY_WAITERS',
      metadata: { limit: '1' },
    });
    expect((await h.readEvents('g#*')).events).toEqual([]);
    expect(await h.clock.run(first)).toEqual([]);
  });
});

test('a position of another partition is refused', async () => {
  const { h } = await withReader({ config: { partitions: 1 } });
  await using _ = h;
  expect(await refusalOf(h.readEvents('g#*', { after: '1-1' }))).toMatchObject({
    reason: 'INVALID_ARGUMENT',
    metadata: { field: 'after' },
  });
});

test.each(['0-99999', '0-99999-1'])('the position %s, which no node has given, is too old', async (after) => {
  const { h, reader } = await withReader({ config: { partitions: 1 } });
  await using _ = h;
  reader.after = after;
  expect(await reader.read()).toEqual(['missed']);
  await h.enqueue(QUEUE, ['a']);
  expect(await reader.read()).toEqual(['ENQUEUED a']);
});

describe('a reader that was away', () => {
  test('for a minute goes on without a gap, also over a crash and a restart', async () => {
    const { h, reader } = await withReader();
    await h.enqueue(QUEUE, ['a']);
    await h.clock.advance(MINUTE);
    await h.enqueue(QUEUE, ['b']);
    await h.crash();
    await h.enqueue(QUEUE, ['c']);
    await h.clock.advance(MINUTE / 2);
    await h.close();
    await h.open();
    await h.enqueue(QUEUE, ['d']);
    expect(await reader.read()).toEqual(['a', 'b', 'c', 'd'].map((pid) => `ENQUEUED ${pid}`));
    await h[Symbol.asyncDispose]();
  });

  test('for more than the log reaches back is told after a crash, and gets all later events', async () => {
    const { h, reader } = await withReader();
    await h.enqueue(QUEUE, ['a']);
    await h.clock.advance(MINUTE);
    await h.enqueue('g#other', ['b']);
    await h.clock.advance(2 * MINUTE);
    await h.enqueue(QUEUE, ['c']);
    await h.clock.advance(1_000);
    h.kill();
    await h.open();
    expect(await reader.read()).toEqual(['missed', 'ENQUEUED b', 'ENQUEUED c']);
    await h.enqueue(QUEUE, ['d']);
    expect(await reader.read()).toEqual(['ENQUEUED d']);
    await h[Symbol.asyncDispose]();
  });

  test('for ten minutes is told, and the log is trimmed again', async () => {
    const { h, reader } = await withReader();
    await using _ = h;
    await h.enqueue(QUEUE, ['a']);
    await h.clock.advance(9 * MINUTE);
    await h.enqueue(QUEUE, ['b']);
    expect(await reader.read()).toEqual(['ENQUEUED a', 'ENQUEUED b']);
    expect(logEntries(h)).toBeGreaterThan(0);
    await h.clock.advance(11 * MINUTE);
    await h.enqueue(QUEUE, ['c']);
    await h.clock.advance(2_000);
    expect(logEntries(h)).toBe(0);
    expect(await reader.read()).toEqual(['missed']);
    await h.enqueue(QUEUE, ['d']);
    expect(await reader.read()).toEqual(['ENQUEUED d']);
  });

  test('while more happened than memory holds is told', async () => {
    const { h, reader } = await withReader({ config: { maxEventBytes: 2_000 } });
    await using _ = h;
    const pids = Array.from({ length: 100 }, (_, at) => String(at).padStart(3, '0'));
    for (const pid of pids) await h.enqueue(QUEUE, [pid]);
    const [first, ...rest] = await reader.read();
    expect(first).toBe('missed');
    expect(rest.length).toBeGreaterThan(5);
    expect(rest.length).toBeLessThan(15);
    expect(rest).toEqual(pids.slice(-rest.length).map((pid) => `ENQUEUED ${pid}`));
  });

  test('within an atom that is forgotten is told', async () => {
    const { h, reader } = await withReader({ config: { maxEventBytes: 2_000 } });
    await using _ = h;
    await h.enqueue(QUEUE, ['a', 'b']);
    await reader.read({ most: 1 });
    for (let at = 0; at < 20; at++) await h.enqueue(QUEUE, [`c${at}`]);
    expect((await reader.read())[0]).toBe('missed');
  });
});

test('without readers no log entry has events, and none is kept', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['a']);
  await h.clock.advance(2_000);
  expect(logEntries(h)).toBe(0);
});

test('the first read of a group on a full disk fails nothing', async () => {
  await using h = await engineHarness();
  await h.enqueue(QUEUE, ['a']);
  h.disk.space = 'none';
  expect((await refusalOf(h.enqueue(QUEUE, ['b']))).reason).toBe('DISK_FULL');
  await h.clock.advance(5_000);
  expect((await h.clock.run(h.readEvents('g#*'))).events).toEqual([]);
  h.disk.space = 'plenty';
  await h.clock.advance(2_000);
  await h.clock.run(h.enqueue(QUEUE, ['c']));
});

describe('a reader that wants none of many events', () => {
  const pids = Array.from({ length: 2_500 }, (_, at) => String(at).padStart(4, '0'));

  test('gives other calls their turns while it looks at them', async () => {
    const { h, reader } = await withReader();
    await using _ = h;
    const { after: begin = '' } = reader;
    await h.enqueue(QUEUE, pids);
    let answered: string[] | undefined;
    const looking = reader.read({ pid: 'x' }).then((read) => {
      answered = read;
    });
    await h.enqueue(QUEUE, ['y']);
    expect(answered).toBeUndefined();
    await h.clock.run(looking);
    expect(answered).toEqual([]);
    await h.enqueue(QUEUE, ['x']);
    reader.after = begin;
    expect(await h.clock.run(reader.read({ pid: 'x' }))).toEqual(['ENQUEUED x']);
    reader.after = begin;
    expect(await h.clock.run(reader.read({ pid: 'none', wait: 1_000 }))).toEqual([]);
    const { events } = await h.readEvents('g#*', { after: begin, most: 1_000 });
    expect(events.map(pidIn)).toEqual(pids.slice(0, 1_000));
  });

  test('and waits meanwhile gets the one that it wants behind them', async () => {
    const { h, reader } = await withReader();
    await using _ = h;
    const waiting = reader.read({ pid: 'x', wait: MINUTE });
    await h.clock.advance(10);
    await Promise.all([h.enqueue(QUEUE, pids), h.enqueue(QUEUE, ['x'])]);
    expect(await h.clock.run(waiting)).toEqual(['ENQUEUED x']);
    expect(h.engine.figures().eventReaders).toBe(0);
  });
});

describe('many groups with readers', () => {
  test('do not make each log entry of their partition large', async () => {
    await using h = await engineHarness({ config: { partitions: 1 } });
    for (let at = 0; at < 500; at++) await h.readEvents(`group-${at}#*`);
    await h.enqueue(QUEUE, ['a']);
    const before = h.engine.figures().commitBytes;
    for (let at = 0; at < 10; at++) await h.enqueue(QUEUE, [`b${at}`]);
    expect(h.engine.figures().commitBytes - before).toBeLessThan(10 * 1_000);
  });

  test('have all their events after a crash, also those in which little happens', async () => {
    const h = await engineHarness({ config: { partitions: 1 } });
    const quiet = Array.from({ length: 20 }, (_, at) => `quiet-${at}`);
    const positions = new Map<string, string>();
    for (const group of quiet) positions.set(group, formatPosition((await h.readEvents(`${group}#*`)).position));
    for (let at = 0; at < 10; at++) {
      await h.enqueue(QUEUE, [`b${at}`]);
      await h.clock.advance(20_000);
      for (const group of quiet) {
        const after = positions.get(group) ?? '';
        positions.set(group, formatPosition((await h.readEvents(`${group}#*`, { after })).position));
      }
    }
    await h.enqueue(QUEUE, ['last']);
    await h.enqueue('quiet-7#q', ['one']);
    await h.crash();
    for (const [group, after] of positions) {
      const expected = group === 'quiet-7' ? ['ENQUEUED one'] : [];
      expect([group, (await h.readEvents(`${group}#*`, { after })).events.map(shown)]).toEqual([group, expected]);
    }
    await h[Symbol.asyncDispose]();
  });
});

test('events of a write that found the disk full did not happen', async () => {
  const { h, reader } = await withReader({ syncMs: 10 });
  await using _ = h;
  const waiting = reader.read({ wait: MINUTE });
  await h.clock.advance(100);
  h.disk.space = 'none';
  const lost = refusalOf(h.enqueue(QUEUE, ['lost']));
  await h.clock.advance(100);
  expect((await lost).reason).toBe('DISK_FULL');
  h.disk.space = 'plenty';
  await h.clock.advance(2_000);
  expect(await h.clock.run(waiting)).toEqual([]);
  await h.clock.run(h.enqueue(QUEUE, ['a']));
  expect(await h.clock.run(reader.read())).toEqual(['ENQUEUED a']);
});

describe('a group that moves', () => {
  const P = partitionOf('g', 4) as PartitionId;
  const options = { clustered: true, syncMs: 1, config: { partitions: 4 } };

  async function moved(during: (from: EngineHarness) => Promise<unknown>) {
    const from = await engineHarness(options);
    await from.clock.run(from.engine.partitions.claim([{ id: P, epoch: 1 }]));
    const reader = new Reader(from);
    await from.clock.run(reader.read());
    await from.clock.run(from.enqueue(QUEUE, ['a']));
    const waiting = reader.read({ wait: MINUTE, pid: 'none' });
    await from.clock.advance(10);
    const leaving = from.engine.partitions.export(P);
    const rows: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const part of leaving.rows()) rows.push(...part);
    };
    await from.clock.run(read());
    await from.clock.run(during(from));
    await from.clock.run(leaving.synced());
    const to = await engineHarness(options);
    const { partitions } = to.engine;
    const arriving = await to.clock.run(partitions.import({ id: P, epoch: 2, ...leaving.offer, now: to.clock.now() }));
    await to.clock.run(arriving.addRows(rows as never));
    await to.clock.run(arriving.addAtoms(leaving.takeAtoms()));
    await to.clock.run(partitions.take(arriving));
    await from.clock.run(from.engine.partitions.release(P, 'to', 2));
    return { from, to, reader, waited: await waiting };
  }

  test('answers those that wait, and they go on at its new holder without a gap', async () => {
    const { from, to, reader, waited } = await moved((from) => from.enqueue(QUEUE, ['b']));
    expect(waited).toEqual([]);
    await to.clock.run(to.enqueue(QUEUE, ['c']));
    expect(await to.clock.run(reader.read({}, to))).toEqual(['ENQUEUED c']);
    expect(await refusalOf(from.clock.run(from.readEvents('g#*')))).toMatchObject({ reason: 'NOT_HOLDER' });
  });

  test('has no gap there if only other groups of its partition had events meanwhile', async () => {
    const other = Array.from({ length: 100 }, (_, at) => `other-${at}`).find((name) => partitionOf(name, 4) === P);
    let after = '';
    const { to, reader } = await moved(async (from) => {
      after = formatPosition((await from.readEvents('g#*')).position);
      await from.readEvents(`${other}#*`);
      await from.enqueue(`${other}#q`, ['x']);
    });
    await to.clock.run(to.enqueue(QUEUE, ['b']));
    reader.after = after;
    expect(await reader.read({}, to)).toEqual(['ENQUEUED b']);
  });

  test('has there what happened while it was sent', async () => {
    const { to, reader } = await moved(async (from) => {
      await new Reader(from).read();
      await from.enqueue(QUEUE, ['b']);
      await from.enqueue(QUEUE, ['c']);
    });
    await to.clock.run(to.enqueue(QUEUE, ['d']));
    const { position } = await to.clock.run(to.readEvents('g#*'));
    const before = (atoms: number): string =>
      formatPosition({ ...position, ticket: (position.ticket - atoms) as Ticket });
    reader.after = before(3);
    expect(await to.clock.run(reader.read({}, to))).toEqual(['ENQUEUED b', 'ENQUEUED c', 'ENQUEUED d']);
    reader.after = before(4);
    expect((await to.clock.run(reader.read({}, to)))[0]).toBe('missed');
  });
});

test('a group that begins anew by a clock that is behind tells readers with earlier positions, also after a crash', async () => {
  const P = partitionOf('g', 4) as PartitionId;
  const options = { clustered: true, config: { partitions: 4 } };
  const lost = await engineHarness(options);
  await lost.clock.advance(2);
  await lost.clock.run(lost.engine.partitions.claim([{ id: P, epoch: 1 }]));
  const reader = new Reader(lost);
  await reader.read();
  await lost.enqueue(QUEUE, ['a', 'b']);
  const { events } = await lost.readEvents('g#*', { after: reader.after ?? '' });
  const earlier = [reader.after ?? '', ...events.map(({ position }) => position)];

  await using h = await engineHarness(options);
  await h.clock.advance(1);
  await h.clock.run(h.engine.partitions.claim([{ id: P, epoch: 2 }]));
  const { position: begin } = await h.readEvents('g#*');
  // As many changes as it takes to have the tickets of the earlier life.
  const pids = Array.from({ length: 80 }, (_, at) => String(at).padStart(2, '0'));
  for (const pid of pids) await h.enqueue(QUEUE, [pid]);
  const all = pids.map((pid) => `ENQUEUED ${pid}`);
  const expectMissed = async () => {
    expect(parsePosition(earlier[0] ?? '')?.ticket).toBeGreaterThan(begin.ticket);
    for (const after of [...earlier, `${P}-${begin.ticket + 40}`]) {
      const page = await h.readEvents('g#*', { after });
      expect(page.events.map(shown)).toEqual(['missed', ...all]);
    }
    expect((await h.readEvents('g#*', { after: formatPosition(begin) })).events.map(shown)).toEqual(all);
  };
  await expectMissed();
  await h.clock.advance(1_000);
  await h.crash();
  await expectMissed();
  await lost[Symbol.asyncDispose]();
});

/** The tasks of a group as its events tell them: by queue and PID, whether they are leased. */
class Told {
  readonly tasks = new Map<string, boolean>();
  missed = 0;

  note(event: WireEvent): void {
    const { kind, queue, toQueue } = event;
    const key = `${queue} ${pidIn(event)}`;
    switch (kind) {
      case EventKind.EVENT_KIND_MISSED:
        this.missed++;
        return;
      case EventKind.EVENT_KIND_ENQUEUED:
        expect(this.tasks.has(key), key).toBe(false);
        this.tasks.set(key, false);
        return;
      case EventKind.EVENT_KIND_LEASED:
        expect(this.tasks.get(key), key).toBe(false);
        this.tasks.set(key, true);
        return;
      case EventKind.EVENT_KIND_FAILED:
      case EventKind.EVENT_KIND_RELEASED:
        expect(this.tasks.get(key), key).toBe(true);
        this.tasks.set(key, false);
        return;
      case EventKind.EVENT_KIND_QUEUE_DELETED: {
        const gone = [...this.tasks.keys()].filter((other) => other.startsWith(`${queue} `));
        expect(event.tasks).toBe(gone.length);
        for (const other of gone) this.tasks.delete(other);
        return;
      }
      case EventKind.EVENT_KIND_COMPLETED:
      case EventKind.EVENT_KIND_CANCELLED:
      case EventKind.EVENT_KIND_REMOVED:
      case EventKind.EVENT_KIND_DEAD_LETTERED:
      case EventKind.EVENT_KIND_MOVED:
        expect(this.tasks.delete(key), key).toBe(true);
        if (toQueue !== '') this.tasks.set(`${toQueue} ${Buffer.from(event.toPid).toString()}`, false);
        return;
      default:
        expect(this.tasks.has(key), key).toBe(true);
    }
  }
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])('the events of a run tell the tasks that are there: seed %d', async (seed) => {
  const random = new SeededRandom(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T;
  const h = new EngineHarness({ seed, syncMs: 2, atomicBatches: seed % 2 === 0 });
  await h.open();
  const told = new Told();
  const reader = new Reader(h);
  const readAll = async () => {
    for (;;) {
      const after = reader.after === undefined ? {} : { after: reader.after };
      const most = 1 + Math.floor(random.next() * 9);
      const { events, position } = await h.clock.run(h.readEvents('g#*', { ...after, most }));
      for (const event of events) told.note(event);
      reader.after = formatPosition(position);
      if (events.length === 0) return;
    }
  };
  await readAll();
  const queues = ['g#a', 'g#b'];
  const pids = ['1', '2', '3', '4', '5'];
  const tokens = new Map<string, number>();
  const retry = () => ({ maxAttempts: pick([1, 2, 0]), deadLetterQueue: 'lost' });
  const steps: (() => Promise<unknown>)[] = [
    () => h.update({ enqueue: [{ queue: pick(queues), pid: pick(pids), mode: pick([1, 2, 3, 4]), retry: retry() }] }),
    () =>
      h.update({
        enqueue: [{ queue: 'g#a', pid: pick(pids), key: pick(['x', 'y']), mode: pick([1, 3, 4]), retry: retry() }],
      }),
    async () => {
      for (const task of await h.lease([...queues, 'g#lost'], { max: 2, for: pick([50, 5_000]) })) {
        tokens.set(`${task.queue.group}#${task.queue.name} ${task.pid}`, task.token);
      }
    },
    async () => {
      const [name, token] = pick([...tokens, ['g#a 1', undefined] as const]);
      const [queue = '', pid = ''] = name.split(' ');
      const named = { queue, pid, ...(token !== undefined && { token }) };
      await pick([
        () => h.update({ dequeue: [named] }),
        () => h.update({ release: [{ ...named, error: 'broken' }] }),
        () => h.update({ release: [{ ...named, refund: true }] }),
        () => h.update({ renew: [{ ...named, for: 5_000, progress: 'half' }] }),
        () => h.update({ dequeue: [{ queue, pid, cancel: 'no' }] }),
      ])();
    },
    () => h.update({ dequeue: [{ queue: 'g#lost', pid: pick(pids), requeue: true }] }),
    () => h.engine.deleteQueue({ group: 'g', name: pick(['a', 'b', 'lost']) }),
    () => h.engine.resetLeases({ group: 'g', name: pick(['a', 'b']) }),
  ];
  for (let step = 0; step < 300; step++) {
    const what = random.next();
    // Refused steps change nothing.
    const acting = pick(steps)().catch(() => {});
    if (what < 0.03) {
      // Between the write and the answer, or before the write.
      await h.clock.advance(pick([0, 1, 2]));
      await h.crash();
    } else {
      await h.clock.run(acting);
    }
    if (what > 0.8) await h.clock.advance(pick([10, 100, 2_000]));
    if (what > 0.7) await readAll();
  }
  await readAll();
  const there = new Map<string, boolean>();
  for (const name of ['a', 'b', 'lost']) {
    for (const kind of ['head', 'leased', 'delayed'] as const) {
      const command = { queue: { group: 'g', name }, kind, limit: 100, includeData: false };
      for (const { pid } of await h.clock.run(h.engine.peekTasks(command)))
        there.set(`g#${name} ${pid}`, kind === 'leased');
    }
  }
  await readAll();
  expect(told.missed).toBe(0);
  expect(new Map([...told.tasks].toSorted())).toEqual(new Map([...there].toSorted()));
  await h[Symbol.asyncDispose]();
});

describe('an engine for development', () => {
  test('keeps the events of groups without readers, with the beginning of the data', async () => {
    await using h = await engineHarness({ tellsAll: true });
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a', data: '{"to":"ann"}' }] });
    await h.update({ enqueue: [{ queue: 'other#q', pid: 'b', data: 'ü'.repeat(500) }] });
    await h.lease([QUEUE], { for: 1_000 });
    const { events } = await h.readEvents('g#*', { after: 'oldest' });
    expect(events.map(shown)).toEqual(['missed', 'ENQUEUED a', 'LEASED a']);
    expect(events.map(({ text }) => text)).toEqual(['', '{"to":"ann"}', '']);
    expect((await h.readEvents('other#*', { after: 'oldest' })).events[1]?.text).toBe('ü'.repeat(100));
    // A position is one of its group as before.
    expect((await h.readEvents('g#*')).events).toEqual([]);
  });

  test('tells no data that is no text', async () => {
    await using h = await engineHarness({ tellsAll: true });
    // Its second byte alone is no character.
    await h.update({ enqueue: [{ queue: QUEUE, pid: 'a', data: 'ü', headerBytes: 1 }] });
    expect((await h.readEvents('g#*', { after: 'oldest' })).events.map(({ text }) => text)).toEqual(['', '']);
  });
});

test('a reader of the oldest events gets all that are kept', async () => {
  const { h, reader } = await withReader();
  await using _ = h;
  await h.enqueue(QUEUE, ['a', 'b']);
  await reader.read();
  expect((await h.readEvents('g#*', { after: 'oldest' })).events.map(shown)).toEqual([
    'missed',
    'ENQUEUED a',
    'ENQUEUED b',
  ]);
});
