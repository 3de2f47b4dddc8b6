import { describe, expect, test } from 'vitest';
import { GrpcCounter } from './grpc-counter.ts';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const HEADERS = 1;
const PADDED = 8;

function frame(type: number, stream: number, payload: Buffer, flags = 0): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

function message(bytes: number): Buffer {
  const whole = Buffer.alloc(5 + bytes, 1);
  whole[0] = 0;
  whole.writeUInt32BE(bytes, 1);
  return whole;
}

function count(chunks: readonly Buffer[], fromClient = false): number[] {
  const found: number[] = [];
  const counter = new GrpcCounter(fromClient, (bytes) => found.push(bytes));
  for (const chunk of chunks) counter.read(chunk);
  return found;
}

describe('messages of gRPC', () => {
  const long = message(20);
  const bytes = Buffer.concat([
    frame(HEADERS, 1, Buffer.alloc(30, 7)),
    frame(0, 1, Buffer.concat([message(3), message(0), long.subarray(0, 8)])),
    frame(0, 3, message(4)),
    frame(0, 1, long.subarray(8)),
    frame(0, 1, Buffer.concat([Buffer.of(2), message(5), Buffer.alloc(2)]), PADDED),
  ]);

  test('are counted in each stream, even if they share or span frames', () => {
    expect(count([bytes])).toEqual([3, 0, 20, 4, 5]);
  });

  test('are counted even if chunks split them anywhere', () => {
    for (let at = 1; at < bytes.length; at++) {
      expect(count([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([3, 0, 20, 4, 5]);
    }
    expect(count([...bytes].map((byte) => Buffer.of(byte)))).toEqual([3, 0, 20, 4, 5]);
  });

  test('are counted behind the preface of a client', () => {
    expect(count([PREFACE.subarray(0, 10), PREFACE.subarray(10), bytes], true)).toEqual([3, 0, 20, 4, 5]);
    expect(() => count([Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n')], true)).toThrow('not HTTP/2');
  });
});
