import { describe, expect, test } from 'vitest';
import { ReplyReader } from './beanstalkd-connection.ts';

const bytes = Buffer.from('INSERTED 1\r\nRESERVED 1 5\r\nRE\r\nD\r\nTIMED_OUT\r\nRESERVED 2 0\r\n\r\nDELETED\r\n');
const replies = [
  ['INSERTED 1', undefined],
  ['RESERVED 1 5', 'RE\r\nD'],
  ['TIMED_OUT', undefined],
  ['RESERVED 2 0', ''],
  ['DELETED', undefined],
];

function read(chunks: readonly Buffer[]): unknown[] {
  const found: unknown[] = [];
  const reader = new ReplyReader(({ words, body }) => found.push([words.join(' '), body?.toString()]));
  for (const chunk of chunks) reader.read(chunk);
  return found;
}

describe('replies of beanstalkd', () => {
  test('are split at the ends of lines and by the length of bodies', () => {
    expect(read([bytes])).toEqual(replies);
  });

  test('are read even if chunks split them anywhere', () => {
    for (let at = 1; at < bytes.length; at++) {
      expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(replies);
    }
    expect(read([...bytes].map((byte) => Buffer.of(byte)))).toEqual(replies);
  });
});
