import { parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { Pid } from '../domain/ids.ts';
import { type EngineHarness, engineHarness, pidsOf } from '../testing/engine-harness.ts';

const PIDS = Array.from({ length: 30 }, (_, number) => `p${String(number).padStart(2, '0')}`);

async function pages(h: EngineHarness, limit: number): Promise<string[][]> {
  const found: string[][] = [];
  for (let after: Pid | undefined; ; after = found.at(-1)?.at(-1) as Pid) {
    const command = { queue: parseQueueName('g#q'), kind: 'head' as const, limit, after, includeData: false };
    const page = pidsOf(await h.engine.peekTasks(command));
    if (page.length === 0) return found;
    found.push(page);
  }
}

test.each([
  ['from memory', 1_000_000, false],
  ['from the store, with a cache for few', 2_000, true],
])(
  'the available tasks are shown in pages, %s, also while some are leased or come',
  async (_where, cacheBytes, restart) => {
    await using h = await engineHarness({ config: { cacheBytes } });
    await h.update({ enqueue: PIDS.map((pid) => ({ queue: 'g#q', pid })) });
    if (restart) await h.crash();
    await h.lease('g#q', { max: 2 });
    await h.update({ enqueue: [{ queue: 'g#q', pid: 'p05+' }], dequeue: [{ queue: 'g#q', pid: 'p20' }] });
    const expected = [...PIDS, 'p05+'].filter((pid) => !['p00', 'p01', 'p20'].includes(pid)).toSorted();
    for (const limit of [1, 7, 100]) {
      const found = await pages(h, limit);
      expect(found.flat()).toEqual(expected);
      expect(found.slice(0, -1).every(({ length }) => length === limit)).toBe(true);
    }
  },
);
