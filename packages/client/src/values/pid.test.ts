import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { comparePids, type PidPart, pidBytes, pidFromText, pidOf, pidText } from './pid.ts';

const text = fc.string({ unit: 'binary', maxLength: 12 });
const filledText = fc.string({ unit: 'binary', minLength: 1, maxLength: 12 });
const number = fc.double({ noNaN: true });
const date = fc.date({ noInvalidDate: true });
const bytes = fc.uint8Array({ maxLength: 12 });

const sign = (order: number): number => Math.sign(order) + 0;
const orderOfNumbers = (a: number, b: number): number => (a < b ? -1 : a > b ? 1 : 0);
/** By code point, as UTF-8 orders; `<` on strings orders by UTF-16 unit, which differs beyond the basic plane. */
const orderOfTexts = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe('pidOf keeps the order of its values', () => {
  test('numbers, negative and infinite ones too', () => {
    fc.assert(
      fc.property(number, number, (a, b) => {
        expect(sign(comparePids(pidOf(a), pidOf(b)))).toBe(orderOfNumbers(a, b));
      }),
    );
  });

  test('dates', () => {
    fc.assert(
      fc.property(date, date, (a, b) => {
        expect(sign(comparePids(pidOf(a), pidOf(b)))).toBe(orderOfNumbers(a.getTime(), b.getTime()));
      }),
    );
  });

  test('tuples whose first parts have any length', () => {
    const tuple = fc.tuple(text, bytes, number, text);
    const order = (a: [string, Uint8Array, number, string], b: typeof a): number =>
      orderOfTexts(a[0], b[0]) || Buffer.compare(a[1], b[1]) || orderOfNumbers(a[2], b[2]) || orderOfTexts(a[3], b[3]);
    fc.assert(
      fc.property(tuple, tuple, (a, b) => {
        expect(sign(comparePids(pidOf(a), pidOf(b)))).toBe(sign(order(a, b)));
      }),
    );
  });

  test('a part that is a prefix of another one comes first, whatever follows it', () => {
    expect(comparePids(pidOf(['a', 'z']), pidOf(['a\0', 'a']))).toBeLessThan(0);
    expect(comparePids(pidOf(['a\0', 'z']), pidOf(['a\u0001', 'a']))).toBeLessThan(0);
  });
});

test('a single text is its UTF-8 bytes, so that people can read it', () => {
  expect(Buffer.from(pidOf('invoice-17')).toString()).toBe('invoice-17');
  expect(pidBytes('ä')).toEqual(Buffer.from([0xc3, 0xa4]));
});

test('0 and -0 are the same', () => expect(pidOf(-0)).toEqual(pidOf(0)));

test('pidFromText reads every result of pidText', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        filledText.map((one) => Buffer.from(one)),
        fc.uint8Array({ minLength: 1 }),
        fc.constantFrom('hex:00', 'base64:', '-n').map((one) => Buffer.from(one)),
      ),
      (pid) => {
        expect(Buffer.from(pidFromText(pidText(pid)))).toEqual(Buffer.from(pid));
      },
    ),
  );
});

test('pidFromText explains the text form when a text only looks like bytes', () => {
  expect(() => pidFromText('hex:zz')).toThrow('is written hex:6865783a7a7a');
  expect(pidFromText('hex:6865783a7a7a')).toEqual(Buffer.from('hex:zz'));
});

test('pidFromText reads text that people write', () => {
  expect(pidFromText('invoice 17')).toEqual(Buffer.from('invoice 17'));
  expect(pidFromText('hex:00Ff')).toEqual(Buffer.of(0, 0xff));
  expect(pidFromText('base64:AP8=')).toEqual(Buffer.of(0, 0xff));
});

test.each<[string, () => unknown]>([
  ['no bytes', () => pidBytes('')],
  ['too many bytes', () => pidBytes('x'.repeat(4097))],
  ['a lone surrogate', () => pidBytes('a\ud800')],
  ['NaN', () => pidOf(Number.NaN)],
  ['an invalid date', () => pidOf(new Date('never'))],
  ['an empty tuple', () => pidOf([] as unknown as [PidPart])],
  ['odd hexadecimal digits', () => pidFromText('hex:abc')],
  ['a marker and nothing', () => pidFromText('hex:')],
  ['base64 without its padding', () => pidFromText('base64:AP8')],
])('%s is a TypeError', (_what, act) => expect(act).toThrow(TypeError));
