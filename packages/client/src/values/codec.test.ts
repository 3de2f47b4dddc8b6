import { runInNewContext } from 'node:vm';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { LeasedTask } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { bytesCodec, type Codec, type DataFormat, decodeData, encodeData, jsonCodec, textCodec } from './codec.ts';
import { InvalidDataError } from './errors.ts';

const json: DataFormat<unknown, unknown> = { codec: jsonCodec, schema: undefined };
const utf8 = (text: string): Uint8Array => Buffer.from(text);

test('JSON is the plain text of the value', () => {
  expect(encodeData(json, { to: 'ä' })).toEqual(utf8('{"to":"ä"}'));
  expect(decodeData(json, utf8('{"to":"ä"}'))).toEqual({ ok: true, value: { to: 'ä' } });
});

test('text and bytes are sent unchanged', () => {
  expect(textCodec.decode(textCodec.encode('grün'))).toBe('grün');
  const bytes = utf8('x');
  expect(bytesCodec.decode(bytesCodec.encode(bytes))).toBe(bytes);
});

test('empty data that is transferred to a thread takes nothing from other messages', () => {
  const message = LeasedTask.decode(new Uint8Array(0));
  const data = bytesCodec.decode(message.data);
  const { buffer } = data;
  if (!(buffer instanceof ArrayBuffer)) throw new Error('shared memory');
  structuredClone(buffer, { transfer: [buffer] });
  expect(() => Buffer.from(message.data.buffer)).not.toThrow();
});

test.each([
  ['undefined', undefined],
  ['a bigint', 1n],
  ['a function', () => 1],
  ['a symbol', Symbol('x')],
  ['bytes, which JSON would turn into an object of numbers', utf8('x')],
])('%s cannot be JSON', (_what, value) => expect(() => encodeData(json, value)).toThrow(InvalidDataError));

class Point {
  x = 1;
  readonly #y = 2;
  get y(): number {
    return this.#y;
  }
}
class Hidden {
  readonly #secret = 1;
  get secret(): number {
    return this.#secret;
  }
}
const withValue = (value: unknown) => ({ list: [1, { value }] });
const sparse: unknown[] = [1];
sparse[2] = 3;

describe('what JSON.stringify would change without an error is refused', () => {
  test.each([
    ['NaN', Number.NaN, 'NaN would become null'],
    ['infinity', Number.NEGATIVE_INFINITY, '-Infinity would become null'],
    ['undefined in an array', [undefined], '[0]: undefined would become null'],
    ['a function in an array', [() => 1], '[0]: function would become null'],
    ['a symbol in an array', [Symbol('x')], '[0]: symbol would become null'],
    ['a hole of an array', sparse, '[1]: a hole would become null'],
    ['an invalid date', new Date(Number.NaN), 'an invalid date would become null'],
    ['a map', new Map([[1, 2]]), 'a value of Map would lose what it holds'],
    ['a set', new Set([1]), 'a value of Set would lose what it holds'],
    ['a weak map', new WeakMap(), 'a value of WeakMap'],
    ['a promise', Promise.resolve(1), 'a value of Promise'],
    ['an expression', /x/, 'a value of RegExp'],
    ['an error', new Error('x'), 'a value of Error'],
    ['an error with properties', Object.assign(new TypeError('x'), { code: 1, more: {} }), 'a value of TypeError'],
    ['a buffer', Buffer.from('x'), 'bytes are not JSON'],
    ['an array of bytes', new Uint8Array(1), 'bytes are not JSON'],
    ['an empty array of bytes', new Uint8Array(0), 'bytes are not JSON'],
    ['an array of floats', new Float64Array(1), 'bytes are not JSON'],
    ['memory', new ArrayBuffer(1), 'a value of ArrayBuffer'],
    ['a view of memory', new DataView(new ArrayBuffer(1)), 'bytes are not JSON'],
    ['an iterator', [1].values(), 'would lose what it holds'],
    ['headers', new Headers({ a: 'b' }), 'a value of Headers'],
    ['an object that hides all it holds', new Hidden(), 'a value of Hidden'],
    ['what a toJSON returns', { toJSON: () => [Number.NaN] }, '[0]: NaN would become null'],
  ])('%s', (_what, value, problem) => {
    for (const data of [value, withValue(value)]) expect(() => encodeData(json, data)).toThrow(problem);
    expect(() => encodeData(json, withValue(value))).toThrow('list[1].value');
  });

  test.each([
    ['null', null, 'null'],
    ['an empty object', {}, '{}'],
    ['an empty object without a prototype', Object.create(null), '{}'],
    ['an object of another realm', runInNewContext('({ a: {}, b: null })'), '{"a":{},"b":null}'],
    ['an empty array', [], '[]'],
    ['words that look like it', { a: 'null {} "Buffer" {"0":' }, String.raw`{"a":"null {} \"Buffer\" {\"0\":"}`],
    ['a date', new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ['a URL', new URL('http://a/'), '"http://a/"'],
    ['a toJSON that returns null', { toJSON: () => null }, 'null'],
    ['boxed values', [Object(1), Object('x'), Object(false)], '[1,"x",false]'],
    // As JSON says: a receiver gets what is left.
    [
      'properties that are undefined, functions or symbols',
      { a: undefined, b: () => 1, c: Symbol('x'), d: {} },
      '{"d":{}}',
    ],
    ['an object of a class: its own properties', new Point(), '{"x":1}'],
    ['minus zero', -0, '0'],
    ['half of a character', '\ud800', String.raw`"\ud800"`],
  ])('but not %s', (_what, value, text) => {
    expect(String(encodeData(json, value))).toBe(text);
    expect(String(encodeData(json, { value }))).toBe(`{"value":${text}}`);
  });
});

test('bytes that are not UTF-8 cannot be read as JSON or text', () => {
  for (const bytes of [Buffer.of(0x22, 0xff, 0x22), Buffer.of(0xc3), Buffer.of(0xed, 0xa0, 0x80)]) {
    for (const codec of [jsonCodec, textCodec] as const) {
      const decoded = decodeData({ codec: codec as Codec<unknown>, schema: undefined }, bytes);
      expect(decoded).toMatchObject({ ok: false, error: { reason: 'INVALID_DATA' } });
      expect(decoded).toHaveProperty('error.message', expect.stringContaining('not UTF-8'));
    }
  }
  expect(() => encodeData({ codec: textCodec as Codec<unknown>, schema: undefined }, 'a\ud800')).toThrow(
    'lone surrogate',
  );
});

test('a payload that cannot be decoded is a result, not an exception', () => {
  const decoded = decodeData(json, utf8('{'));
  expect(decoded).toMatchObject({ ok: false, error: { reason: 'INVALID_DATA' } });
});

describe('with a schema', () => {
  const mail = z.object({ to: z.email(), at: z.string().transform((text) => new Date(text)) });
  const format: DataFormat<z.output<typeof mail>, z.input<typeof mail>> = { codec: jsonCodec, schema: mail };

  test('the value is sent as it is; the receiver gets the output of the schema', () => {
    const sent = encodeData(format, { to: 'ann@example.com', at: '2030-01-01T00:00:00Z' });
    expect(String(sent)).toBe('{"to":"ann@example.com","at":"2030-01-01T00:00:00Z"}');
    expect(decodeData(format, sent as Uint8Array)).toEqual({
      ok: true,
      value: { to: 'ann@example.com', at: new Date('2030-01-01') },
    });
  });

  test('a value that does not match is not sent, and the error has its path', () => {
    const enqueue = (): unknown => encodeData(format, { to: 'ann', at: '2030-01-01' });
    expect(enqueue).toThrow(InvalidDataError);
    expect(enqueue).toThrow(/schema: to: /);
  });

  test('received data that does not match is a result with the issues', () => {
    const decoded = decodeData(format, utf8('{"to":"ann@example.com"}'));
    expect(decoded).toMatchObject({ ok: false, error: { issues: [{ path: 'at' }] } });
  });
});

test('a schema may be asynchronous', async () => {
  const slow: StandardSchemaV1<number, number> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: async (value) => (value === 1 ? { value: 1 } : { issues: [{ message: 'not one' }] }),
    },
  };
  const format = { codec: jsonCodec, schema: slow };
  expect(await encodeData(format, 1)).toEqual(utf8('1'));
  await expect(encodeData(format, 2)).rejects.toThrow('not one');
  expect(await decodeData(format, utf8('2'))).toMatchObject({ ok: false });
});

test('an error that a schema throws is reported as a fault of the data', () => {
  const broken: StandardSchemaV1<number, number> = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: () => {
        throw new RangeError('bug');
      },
    },
  };
  const format = { codec: jsonCodec, schema: broken };
  expect(() => encodeData(format, 1)).toThrow(InvalidDataError);
  expect(decodeData(format, utf8('1'))).toMatchObject({ ok: false, error: { cause: { message: 'bug' } } });
});
