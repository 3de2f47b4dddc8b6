import { Refusal } from '@taskmaster/engine/domain';
import { engineHarness, pidsOf } from '@taskmaster/engine/testing';
import { leavesOpen } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { expectSoundDisk } from './observe.ts';

const FAILED = { reason: 'STORE_FAILED' };

const faults = [
  { fault: 'fsync', atomicBatches: true },
  { fault: 'fsync', atomicBatches: false },
  { fault: 'write', atomicBatches: true },
  { fault: 'write', atomicBatches: false },
] as const;

test.each(faults)(
  'a $fault that fails once is not retried: nothing is acknowledged until a restart (atomic: $atomicBatches)',
  async ({ fault, atomicBatches }) => {
    for (let nth = 1; nth <= 12; nth++) {
      const h = await engineHarness({ seed: nth, atomicBatches, writeMs: 1, syncMs: 1 });
      await h.clock.run(h.enqueue('mail', ['a', 'b']));
      const acknowledged = ['a', 'b'];
      const open: string[] = [];
      let failed = false;
      if (fault === 'fsync') h.disk.failSync(nth);
      else h.disk.failWrite(nth);

      const waiting = h.lease('empty', { wait: 60_000 }).catch((error: unknown) => error);
      // Writes of the checkpoint may fail, too.
      for (let i = 0; i < 30; i++) {
        const enqueued = h.enqueue('mail', [`c${i}`]).then(
          () => {
            expect(failed, 'acknowledged after the fault').toBe(false);
            acknowledged.push(`c${i}`);
          },
          (error: unknown) => {
            expect(error).toMatchObject(FAILED);
            if (error instanceof Refusal && leavesOpen(error)) open.push(`c${i}`);
            failed = true;
          },
        );
        await h.clock.advance(1 + h.random.int(60));
        if (failed) await enqueued;
      }
      expect(failed).toBe(true);
      expect(h.engine.health.kind).toBe('failed');
      expect(await h.clock.run(waiting)).toMatchObject(FAILED);
      await expect(h.lease('mail')).rejects.toMatchObject(FAILED);
      const refused = { ...FAILED, metadata: { nothing_changed: 'true' } };
      await expect(h.update({ dequeue: [{ queue: 'mail', pid: 'a' }] })).rejects.toMatchObject(refused);
      await h.clock.advance(60_000);
      expect(h.engine.health.kind, 'it does not recover by itself').toBe('failed');

      // Without atomic batches, writes may be needed before the disk can be read: then reads are refused.
      const counted = await h.clock.run(h.counts('mail').catch((error: unknown) => error));
      if (atomicBatches) expect(counted).toMatchObject({ available: expect.any(Number) });
      if (counted instanceof Error) expect(counted).toMatchObject(FAILED);
      else expect(counted).toMatchObject({ available: acknowledged.length, leased: 0, delayed: 0 });

      await h.crash();
      expect(h.engine.health.kind).toBe('serving');
      const found = pidsOf(await h.clock.run(h.lease('mail', { max: 100 })));
      expect(found).toEqual(expect.arrayContaining(acknowledged));
      // Calls that were refused with "nothing was changed" have changed nothing.
      expect([...acknowledged, ...open]).toEqual(expect.arrayContaining(found));
      await expectSoundDisk(h);
      await h[Symbol.asyncDispose]();
    }
  },
);
