import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Instant, Pid } from '../../domain/ids.ts';
import { pidAfter } from '../../domain/keys.ts';
import type { TaskState } from '../../domain/task.ts';
import { QueueCache } from './queue-cache.ts';
import { availableState } from './test-support.ts';

const hiddenState: TaskState = {
  ...availableState,
  visibility: { kind: 'hidden', until: 1 as Instant, lease: undefined },
};
const task = (data = new Uint8Array(10)) => ({ state: { ...availableState, dataBytes: data.byteLength }, data });

/** The PIDs of the known head, in order. */
const headOf = (cache: QueueCache): Pid[] => Array.from(cache.head(), ({ pid }) => pid);

const FIRST = '' as Pid;
const pids = fc.constantFrom(...(['a', 'b', 'b\0', 'c', 'd', '\xfe', '\xff', '\xff\xff'] as Pid[]));
const steps = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constantFrom('available' as const, 'hidden' as const, 'gone' as const), pid: pids }),
    fc.record({ kind: fc.constant('refill' as const), tasks: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ kind: fc.constant('shed' as const), bytes: fc.nat(2000) }),
  ),
  { maxLength: 60 },
);

/** The actual tasks of a queue, and a cache that gets their changes. */
class Tasks {
  readonly cache = new QueueCache(FIRST);
  readonly #available = new Set<Pid>();
  readonly #hidden = new Set<Pid>();

  become(kind: 'available' | 'hidden' | 'gone', pid: Pid): void {
    this.#available.delete(pid);
    this.#hidden.delete(pid);
    if (kind === 'available') {
      this.#available.add(pid);
      this.cache.removeHidden(pid);
      this.cache.putReady(pid, task());
    } else {
      this.cache.removeReady(pid);
      if (kind === 'hidden') {
        this.#hidden.add(pid);
        this.cache.putHidden(pid, hiddenState);
      } else {
        this.cache.removeHidden(pid);
      }
    }
  }

  /** As a refill does: reads on from the first missing PID. */
  refill(tasks: number): void {
    const { firstMissing } = this.cache;
    if (firstMissing === undefined) return;
    const read = this.inOrder().filter((pid) => pid >= firstMissing);
    const page = read.slice(0, tasks);
    const last = page.at(-1);
    this.cache.extendTo(read.length <= tasks || last === undefined ? undefined : pidAfter(last));
    for (const pid of page) this.cache.putReady(pid, task());
  }

  inOrder(): Pid[] {
    return [...this.#available].sort((a, b) => Buffer.compare(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1')));
  }

  check(): void {
    const { cache } = this;
    const known = headOf(cache);
    // H1, H2: a contiguous head, complete if `firstMissing` is undefined.
    expect(known).toEqual(this.inOrder().filter((pid) => cache.knowsReadyUpTo(pid)));
    if (cache.firstMissing === undefined) expect(known).toEqual(this.inOrder());
    expect([cache.firstReady, cache.readyCount]).toEqual([known[0], known.length]);
    for (const [pid] of cache.hiddenTasks()) expect(this.#hidden.has(pid)).toBe(true);
    expect(cache.bytes > 0).toBe(cache.readyCount + cache.hiddenCount > 0);
  }
}

test('knows a contiguous head of the queue after any sequence of changes', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const tasks = new Tasks();
      for (const step of all) {
        if (step.kind === 'refill') tasks.refill(step.tasks);
        else if (step.kind === 'shed') tasks.cache.shed(step.bytes);
        else tasks.become(step.kind, step.pid);
        tasks.check();
      }
      tasks.cache.shed(tasks.cache.bytes);
      expect([tasks.cache.bytes, tasks.cache.readyCount, tasks.cache.hiddenCount]).toEqual([0, 0, 0]);
    }),
    { numRuns: 300 },
  );
});

describe('shedding', () => {
  const filled = () => {
    const cache = new QueueCache(undefined);
    for (const pid of ['a', 'b', 'c'] as Pid[]) cache.putReady(pid, task());
    for (const pid of ['x', 'y'] as Pid[]) cache.putHidden(pid, hiddenState);
    return cache;
  };

  test('removes hidden tasks first, oldest entries first', () => {
    const cache = filled();
    cache.shed(1);
    expect([cache.hidden('x' as Pid), cache.hidden('y' as Pid)]).toEqual([undefined, hiddenState]);
    expect([cache.readyCount, cache.firstMissing]).toEqual([3, undefined]);
  });

  test('removes the available tasks furthest from the head and lowers `firstMissing`', () => {
    const cache = filled();
    const all = cache.bytes;
    for (const pid of ['x', 'y'] as Pid[]) cache.removeHidden(pid);
    const available = cache.bytes;
    for (const pid of ['x', 'y'] as Pid[]) cache.putHidden(pid, hiddenState);
    cache.shed(all - available + 1);
    expect(headOf(cache)).toEqual(['a', 'b']);
    expect(cache.firstMissing).toBe('c');
    expect([cache.knowsReadyUpTo('b' as Pid), cache.knowsReadyUpTo('c' as Pid)]).toEqual([true, false]);
  });
});

test('counts a task that is put twice once, with its new payload', () => {
  const cache = new QueueCache(undefined);
  cache.putReady('a' as Pid, task());
  const { bytes } = cache;
  cache.putReady('a' as Pid, task(new Uint8Array(110)));
  expect(cache.bytes).toBe(bytes + 100);
});

test('counts the memory of the cache itself while it holds tasks', () => {
  const bytesOf = (pids: readonly string[]): number => {
    const cache = new QueueCache(undefined);
    for (const pid of pids) cache.putReady(pid as Pid, task());
    return cache.bytes;
  };
  const [none = 0, one = 0, two = 0] = [bytesOf([]), bytesOf(['a']), bytesOf(['a', 'b'])];
  expect(none).toBe(0);
  expect(one).toBeGreaterThan(2 * (two - one));
});

test('keeps the payload of a single small task unchanged and counts it', () => {
  const cache = new QueueCache(undefined);
  const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  cache.putReady('b' as Pid, task(every));
  const alone = cache.bytes;
  cache.putReady('a' as Pid, task(every));
  for (const pid of ['a', 'b'] as Pid[]) expect(Buffer.from(cache.ready(pid)?.data ?? [])).toEqual(Buffer.from(every));
  expect(cache.bytes).toBeGreaterThan(alone);
  cache.removeReady('a' as Pid);
  expect(cache.bytes).toBe(alone);
  cache.removeReady('b' as Pid);
  expect(cache.bytes).toBe(0);
});
