import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import { describe, expect, test } from 'vitest';
import { readInt64, writeInt64 } from './int64.ts';

/** Around every length and every part of a varint, up to the largest number. */
const powers = Array.from({ length: 53 }, (_, bit) => 2 ** bit);
const numbers = [0, ...powers.flatMap((power) => [power - 1, power, power + 1, Math.floor(power * 1.37)])].filter(
  (value) => value <= Number.MAX_SAFE_INTEGER,
);
const all = [...numbers, Number.MAX_SAFE_INTEGER, ...numbers.flatMap((value) => (value > 0 ? [-value] : []))];

describe('a 64-bit field', () => {
  test('has the bytes that the library writes', () => {
    for (const value of all) {
      const written = writeInt64(new BinaryWriter(), value).finish();
      expect(written).toEqual(new BinaryWriter().int64(value).finish());
      if (value >= 0) expect(written).toEqual(new BinaryWriter().uint64(value).finish());
    }
  });

  test('is read as it was written, and the reader stops behind it', () => {
    for (const value of all) {
      const reader = new BinaryReader(new BinaryWriter().int64(value).uint32(7).finish());
      expect(readInt64(reader)).toBe(value);
      expect(reader.uint32()).toBe(7);
      expect(reader.pos).toBe(reader.len);
    }
  });

  test('is read from a varint with more bytes than necessary', () => {
    for (let padding = 0; padding < 9; padding++) {
      const bytes = Uint8Array.of(0x85, ...Array.from({ length: padding }, () => 0x80), 0x00);
      expect(readInt64(new BinaryReader(bytes))).toBe(5);
    }
  });

  test.each([2n ** 53n, 2n ** 56n, 2n ** 63n - 1n, -(2n ** 53n), -(2n ** 63n)])('of %s is refused', (value) => {
    const reader = new BinaryReader(new BinaryWriter().int64(value).finish());
    expect(() => readInt64(reader)).toThrow(/_SAFE_INTEGER/);
  });

  test('that is truncated is refused', () => {
    for (const bytes of [[0x80], [0x80, 0x80, 0x80, 0x80], [0x80, 0x80, 0x80, 0x80, 0x80, 0x80]]) {
      expect(() => readInt64(new BinaryReader(Uint8Array.from(bytes)))).toThrow(RangeError);
    }
  });
});
