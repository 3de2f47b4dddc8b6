import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Key } from '../domain/ids.ts';
import { Family } from './store.ts';
import { reuseMemory, visitWrites, WriteBatch, type WriteVisitor } from './write-batch.ts';

type Change = { readonly family: Family; readonly key: Key; readonly value: Uint8Array | undefined };

const change: fc.Arbitrary<Change> = fc.record({
  family: fc.constantFrom(...Object.values(Family)),
  key: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1') as Key),
  value: fc.option(fc.uint8Array({ maxLength: 3000 }), { nil: undefined }),
});

function batchOf(changes: readonly Change[]): WriteBatch {
  const batch = new WriteBatch();
  for (const { family, key, value } of changes) {
    if (value === undefined) batch.delete(family, key);
    else batch.put(family, key, value);
  }
  return batch;
}

/** The calls that a visitor receives, in order. */
function changesOf(visit: (visitor: WriteVisitor) => void): Change[] {
  const changes: Change[] = [];
  const add = (family: Family, key: Uint8Array, value?: Uint8Array): void => {
    changes.push({ family, key: Buffer.from(key).toString('latin1') as Key, value: value && Uint8Array.from(value) });
  };
  visit({ put: add, delete: add });
  return changes;
}

const asPlain = (changes: readonly Change[]) =>
  changes.map(({ family, key, value }) => ({ family, key, value: value && [...value] }));

describe('a write batch', () => {
  test('returns its changes in order, with any bytes', () => {
    fc.assert(
      fc.property(fc.array(change), (changes) => {
        const batch = batchOf(changes);
        expect(batch.count).toBe(changes.length);
        expect(asPlain(changesOf((visitor) => batch.visit(visitor)))).toEqual(asPlain(changes));
      }),
    );
  });

  test('has the same changes in its taken records, and is empty afterwards', () => {
    fc.assert(
      fc.property(fc.array(change), (changes) => {
        const batch = batchOf(changes);
        const { byteLength } = batch;
        const records = batch.take();
        expect(records.byteLength).toBe(byteLength);
        // As in another thread: only the view is valid, the rest of the memory may have any bytes.
        const moved = structuredClone(records, { transfer: [records.buffer] });
        expect(asPlain(changesOf((visitor) => visitWrites(moved, visitor)))).toEqual(asPlain(changes));
        expect([batch.count, batch.byteLength]).toEqual([0, 0]);
      }),
    );
  });

  test('copies its arguments: the caller may reuse their memory', () => {
    const value = Buffer.from('before');
    const batch = new WriteBatch();
    batch.put(Family.data, 'key' as Key, value);
    value.write('after!');
    const [change] = changesOf((visitor) => batch.visit(visitor));
    expect(Buffer.from(change?.value ?? []).toString()).toBe('before');
  });

  test('in reused memory has no changes of the earlier batch', () => {
    const large = batchOf([{ family: Family.data, key: 'k' as Key, value: Buffer.alloc(10_000, 'x') }]);
    reuseMemory(large.take().buffer);
    const small: Change = { family: Family.ready, key: 'a' as Key, value: Uint8Array.of(1) };
    const batch = batchOf([small]);
    expect(asPlain(changesOf((visitor) => batch.visit(visitor)))).toEqual(asPlain([small]));
  });

  test('leaves larger spare memory to larger batches', () => {
    const sizes = [200_000, 10_000, 400_000];
    const memories = sizes.map((bytes) => new ArrayBuffer(bytes));
    for (const memory of memories) reuseMemory(memory);
    expect(new WriteBatch(150_000).take().buffer).toBe(memories[0]);
    expect(new WriteBatch(9_000).take().buffer).toBe(memories[1]);
  });
});
