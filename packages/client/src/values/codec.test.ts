import type { StandardSchemaV1 } from '@standard-schema/spec';
import { LeasedTask } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { bytesCodec, type DataFormat, decodeData, encodeData, jsonCodec, textCodec } from './codec.ts';
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
  ['bytes, which JSON would turn into an object of numbers', utf8('x')],
])('%s cannot be JSON', (_what, value) => expect(() => encodeData(json, value)).toThrow(InvalidDataError));

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
