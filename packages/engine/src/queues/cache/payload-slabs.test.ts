import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Kept, PayloadSlabs, payloadIn } from './payload-slabs.ts';

/** A payload that is a view into a message of `messageBytes` bytes. */
const within = (messageBytes: number, bytes: number, fill = 'x'): Uint8Array =>
  Buffer.from(new ArrayBuffer(messageBytes)).fill(fill).subarray(0, bytes);

const LARGE = 20_000;

function keep(slabs: PayloadSlabs, data: Uint8Array): Kept {
  const kept: Kept = { memory: undefined, at: 0 };
  slabs.keep(data, kept);
  return kept;
}

const memoryOf = ({ memory }: Kept): ArrayBufferLike | undefined =>
  typeof memory === 'string' ? undefined : memory?.memory.buffer;

describe('the memory of payloads', () => {
  test('includes a whole slab while one payload in it is kept', () => {
    const slabs = new PayloadSlabs();
    const kept = Array.from({ length: 2_000 }, () => keep(slabs, within(64 * 1024, 100)));
    const left = kept.splice(1_000, 1);
    const memory = left.map((each) => memoryOf(each)?.byteLength);
    for (const each of kept) slabs.drop(each);
    expect([slabs.bytes]).toEqual(memory);
    for (const each of left) slabs.drop(each);
    expect(slabs.bytes).toBe(0);
  });

  test('is little for a queue with one small task', () => {
    const slabs = new PayloadSlabs();
    keep(slabs, within(64 * 1024, 100));
    expect(slabs.bytes).toBe(100);
  });

  test('is little again for a queue that was long and now has one small task at a time', () => {
    const slabs = new PayloadSlabs();
    const kept = Array.from({ length: 2_000 }, () => keep(slabs, within(64 * 1024, 100)));
    expect(kept.some((each) => memoryOf(each)?.byteLength === 64 * 1024)).toBe(true);
    for (const each of kept) slabs.drop(each);
    for (let i = 0; i < 10; i++) slabs.drop(keep(slabs, within(64 * 1024, 100)));
    keep(slabs, within(64 * 1024, 100));
    expect(slabs.bytes).toBeLessThanOrEqual(256);
  });

  test('is the message itself if the payload is most of it', () => {
    const slabs = new PayloadSlabs();
    const data = within(150, 100);
    const kept = keep(slabs, data);
    expect(memoryOf(kept)).toBe(data.buffer);
    expect(payloadIn(kept, 100)).toEqual(data);
    expect(slabs.bytes).toBe(150);
  });

  test('is separate for a large payload within a message', () => {
    const slabs = new PayloadSlabs();
    expect(memoryOf(keep(slabs, within(64 * 1024, LARGE)))?.byteLength).toBe(LARGE);
    expect(slabs.bytes).toBe(LARGE);
  });

  test('is never reused for another payload, even after all its payloads were dropped', () => {
    const slabs = new PayloadSlabs();
    const kept = keep(slabs, within(64 * 1024, 100, 'a'));
    const read = payloadIn(kept, 100);
    slabs.drop(kept);
    keep(slabs, within(64 * 1024, 100, 'b'));
    expect(read).toEqual(within(100, 100, 'a'));
  });

  test('is the memory that kept payloads hold, after any sequence of keeps and drops', () => {
    const sizes = fc.constantFrom(0, 1, 30, 100, 255, 300, 2047, 2048, LARGE);
    const steps = fc.array(fc.oneof(fc.record({ keep: sizes }), fc.record({ drop: fc.nat() })), { maxLength: 100 });
    fc.assert(
      fc.property(steps, (all) => {
        const slabs = new PayloadSlabs();
        const payloads: { readonly kept: Kept; readonly bytes: number; readonly fill: string }[] = [];
        for (const [i, step] of all.entries()) {
          if ('keep' in step) {
            const fill = String.fromCharCode(97 + (i % 26));
            payloads.push({ kept: keep(slabs, within(50_000, step.keep, fill)), bytes: step.keep, fill });
          } else if (payloads.length > 0) {
            for (const { kept } of payloads.splice(step.drop % payloads.length, 1)) slabs.drop(kept);
          }
          for (const { kept, bytes, fill } of payloads) {
            expect(Buffer.from(payloadIn(kept, bytes) ?? []).toString()).toBe(fill.repeat(bytes));
          }
          const alive = new Set(payloads.map(({ kept }) => memoryOf(kept)));
          expect(slabs.bytes).toBe([...alive].reduce((sum, memory) => sum + (memory?.byteLength ?? 0), 0));
        }
      }),
    );
  });
});
