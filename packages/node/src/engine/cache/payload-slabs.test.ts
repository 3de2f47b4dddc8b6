import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PayloadSlabs } from './payload-slabs.ts';

/** A payload within a message of so many bytes. */
const within = (messageBytes: number, bytes: number, fill = 'x'): Uint8Array =>
  Buffer.from(new ArrayBuffer(messageBytes)).fill(fill).subarray(0, bytes);
const text = (data: Uint8Array): string => Buffer.from(data).toString();

describe('the memory of payloads', () => {
  test('counts all of a slab while one payload in it is kept', () => {
    const slabs = new PayloadSlabs();
    const kept = Array.from({ length: 200 }, () => slabs.keep(within(64 * 1024, 100)));
    for (const [i, data] of kept.entries()) if (i !== 100) slabs.drop(data);
    const [left = new Uint8Array()] = kept.slice(100);
    expect(slabs.bytes).toBe(left.buffer.byteLength);
    slabs.drop(left);
    expect(slabs.bytes).toBe(0);
  });

  test('is little for a queue with one small task', () => {
    const slabs = new PayloadSlabs();
    slabs.keep(within(64 * 1024, 100));
    expect(slabs.bytes).toBeLessThanOrEqual(256);
  });

  test('is the message itself where the payload is most of it', () => {
    const slabs = new PayloadSlabs();
    const data = within(150, 100);
    expect(slabs.keep(data)).toBe(data);
    expect(slabs.bytes).toBe(150);
  });

  test('is its own for a large payload within a message', () => {
    const slabs = new PayloadSlabs();
    expect(slabs.keep(within(64 * 1024, 5000)).buffer.byteLength).toBe(5000);
    expect(slabs.bytes).toBe(5000);
  });

  test('is kept once for a payload that comes back while it is kept', () => {
    const slabs = new PayloadSlabs();
    const data = slabs.keep(within(64 * 1024, 100));
    const { bytes } = slabs;
    expect(slabs.keep(data)).toBe(data);
    slabs.drop(data);
    expect(slabs.bytes).toBe(bytes);
    slabs.drop(data);
    expect(slabs.bytes).toBe(0);
  });

  test('is what the payloads keep alive, whichever come and go', () => {
    const sizes = fc.constantFrom(0, 1, 30, 100, 255, 300, 2047, 2048, 9000);
    const steps = fc.array(fc.oneof(fc.record({ keep: sizes }), fc.record({ drop: fc.nat() })), { maxLength: 100 });
    fc.assert(
      fc.property(steps, (all) => {
        const slabs = new PayloadSlabs();
        const kept: { readonly data: Uint8Array; readonly fill: string }[] = [];
        for (const [i, step] of all.entries()) {
          if ('keep' in step) {
            const fill = String.fromCharCode(97 + (i % 26));
            kept.push({ data: slabs.keep(within(10_000, step.keep, fill)), fill });
          } else if (kept.length > 0) {
            for (const { data } of kept.splice(step.drop % kept.length, 1)) slabs.drop(data);
          }
          for (const { data, fill } of kept) expect(text(data)).toBe(fill.repeat(data.byteLength));
          const alive = new Set(kept.filter(({ data }) => data.byteLength > 0).map(({ data }) => data.buffer));
          expect(slabs.bytes).toBe([...alive].reduce((sum, { byteLength }) => sum + byteLength, 0));
        }
      }),
    );
  });
});
