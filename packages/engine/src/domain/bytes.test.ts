import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { latin1, texts } from '../testing/arbitraries.ts';
import { ByteReader, ByteWriter, UnreadableBytesError } from './bytes.ts';

type Field =
  | { readonly kind: 'byte'; readonly value: number }
  | { readonly kind: 'number'; readonly value: number }
  | { readonly kind: 'latin1'; readonly value: string }
  | { readonly kind: 'utf8'; readonly value: string }
  | { readonly kind: 'blob'; readonly value: Uint8Array };

const kindOf = <const K extends Field['kind'], V>(kind: K, values: fc.Arbitrary<V>) =>
  values.map((value) => ({ kind, value }));

const fields: fc.Arbitrary<readonly Field[]> = fc.array(
  fc.oneof(
    kindOf('byte', fc.nat(0xff)),
    kindOf('number', fc.oneof(fc.constantFrom(0, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER), fc.maxSafeNat())),
    kindOf('latin1', latin1({ maxLength: 2000 })),
    kindOf('utf8', texts),
    kindOf('blob', fc.uint8Array({ maxLength: 2000 })),
  ),
);

function write(writer: ByteWriter, all: readonly Field[]): void {
  for (const field of all) {
    if (field.kind === 'blob') writer.blob(field.value);
    else if (field.kind === 'byte' || field.kind === 'number') writer[field.kind](field.value);
    else writer[field.kind](field.value);
  }
}

const read = (bytes: Uint8Array, all: readonly Field[]): Field[] => {
  const reader = new ByteReader(bytes);
  return all.map(({ kind }) =>
    kind === 'blob' ? { kind, value: Uint8Array.from(reader.blob()) } : ({ kind, value: reader[kind]() } as Field),
  );
};

describe('bytes', () => {
  test('are read as they were written, whatever was written before', () => {
    const writer = new ByteWriter();
    fc.assert(
      fc.property(fields, (all) => {
        write(writer, all);
        expect(read(writer.view(), all)).toEqual(all);
      }),
    );
  });

  test('are complete wherever the writer has to grow its memory', () => {
    for (let before = 1000; before <= 1024; before++) {
      const writer = new ByteWriter();
      writer.blob(new Uint8Array(before));
      writer.number(Number.MAX_SAFE_INTEGER);
      const reader = new ByteReader(writer.view());
      expect([reader.blob().length, reader.number()]).toEqual([before, Number.MAX_SAFE_INTEGER]);
    }
  });

  test('are the same after a move to a place, and the writer starts again empty', () => {
    fc.assert(
      fc.property(fields, (all) => {
        const writer = new ByteWriter();
        write(writer, all);
        const target = new Uint8Array(writer.length + 3);
        writer.moveTo(target, 3);
        expect(writer.length).toBe(0);
        expect(read(target.subarray(3), all)).toEqual(all);
      }),
    );
  });

  test('that are truncated anywhere are refused', () => {
    fc.assert(
      fc.property(fields, fc.nat(), (all, at) => {
        const writer = new ByteWriter();
        write(writer, all);
        const bytes = writer.view();
        fc.pre(bytes.length > 0);
        expect(() => read(bytes.subarray(0, at % bytes.length), all)).toThrow(UnreadableBytesError);
      }),
    );
  });

  test('of any kind are read or refused, never read beyond', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20 }), (bytes) => {
        const reader = new ByteReader(bytes);
        try {
          expect(reader.blob().length).toBeLessThan(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(UnreadableBytesError);
        }
      }),
    );
  });
});

test.each([
  ['one above 2^53 - 1', [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]],
  ['one that never ends', Array(1000).fill(0xff).concat(1)],
])('a number is refused: %s', (_what, bytes) => {
  expect(() => new ByteReader(Uint8Array.from(bytes)).number()).toThrow(UnreadableBytesError);
});

test('a row of another version is refused by name', () => {
  const newer = new ByteReader(Uint8Array.of(2));
  expect(() => newer.version(1, 'queue row')).toThrow('queue row has version 2; this release reads 1');
});
