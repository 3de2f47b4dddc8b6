import { describe, expect, test } from 'vitest';
import { metaKeys } from './domain/keys.ts';
import { Family } from './ports/store.ts';
import { WriteBatch } from './ports/write-batch.ts';
import { engineHarness, pidsOf } from './testing/engine-harness.ts';

const HOUR = 3_600_000;

describe('the clock of a restarted node', () => {
  test.each([-HOUR, HOUR])(
    'does not follow the system clock, set by %i ms, before the first checkpoint either',
    async (step) => {
      await using h = await engineHarness();
      await h.enqueue('mail', ['a']);
      const [a] = await h.lease('mail', { for: 10_000 });
      h.clock.stepWall(step);
      await h.crash();
      // It approaches the system clock by a thousandth of the time.
      await h.clock.advance(9_980);
      expect(await h.lease('mail')).toEqual([]);
      expect(Math.abs(h.clock.now() - (a?.until ?? 0) + 20)).toBeLessThanOrEqual(10);
      await h.clock.advance(40);
      expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
    },
  );
});

describe('a store of another release', () => {
  const reopened = async (nodeVersion: number) => {
    const h = await engineHarness({ config: { partitions: 16 } });
    await h.enqueue('mail', ['a']);
    const row = new WriteBatch();
    row.put(Family.meta, metaKeys.node, Uint8Array.of(nodeVersion, 16));
    await h.store?.write(row, { sync: true });
    h.lose();
    return h;
  };

  test('is read, and the other release cannot read it any more', async () => {
    await using h = await reopened(1);
    await h.open();
    expect(pidsOf(await h.lease('mail'))).toEqual(['a']);
    const [row] = (await h.store?.get(Family.meta, [metaKeys.node])) ?? [];
    expect([...(row ?? [])]).toEqual([2, 16]);
  });

  test('is refused if it is newer', async () => {
    const h = await reopened(3);
    await expect(h.open()).rejects.toThrow('node row has version 3; this release reads 2');
  });
});

test('a start tells how many entries of the log it has replayed', async () => {
  const told: number[] = [];
  await using h = await engineHarness({ onReplay: (atoms) => void told.push(atoms) });
  await h.enqueue('mail', ['a', 'b']);
  await h.enqueue('mail', ['c']);
  expect(told).toEqual([]);
  await h.crash();
  expect(told).toEqual([1, 2]);
});
