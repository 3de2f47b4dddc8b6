import { crc32 } from 'node:zlib';
import { type BackupPartitionResponse, TransferredRow, TransferredRowKind } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { decodePart, encodeMessage, encodePart } from './part.ts';

const end = (lastTicket: number): BackupPartitionResponse => ({
  part: { $case: 'end', value: { lastTicket, tasks: 2, queues: 1 } },
});
const messages = [end(1), end(2), end(3)];
const part = await encodePart(messages.map(encodeMessage));

describe('a part', () => {
  test('is read as it was written', async () => {
    expect([...(await decodePart('p', part))]).toEqual(messages);
    expect([...(await decodePart('p', await encodePart([])))]).toEqual([]);
  });

  test('is refused with any flipped bit', async () => {
    for (let bit = 0; bit < part.byteLength * 8; bit++) {
      const flipped = Buffer.from(part);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      await expect(decodePart('p', flipped), `bit ${bit}`).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
    }
  });

  test('is refused if it is truncated, or too long', async () => {
    for (let length = 0; length < part.byteLength; length++) {
      const truncated = part.subarray(0, length);
      await expect(decodePart('p', truncated), `${length} bytes`).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
    }
    const longer = Buffer.concat([part, Buffer.alloc(1)]);
    await expect(decodePart('p', longer)).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });

  test.each([
    ['rows', 2],
    ['atoms', 3],
  ])('of millions of empty %s is refused before they are decoded', async (_kind, field) => {
    const items = Buffer.alloc(2 * 1_000_000, Buffer.from([0x0a, 0x00]));
    // The length of the field is the varint of 2,000,000.
    const message = framed(Buffer.concat([Buffer.from([(field << 3) | 2, 0x80, 0x89, 0x7a]), items]));
    const decoding = vi.spyOn(TransferredRow, 'decode');
    const part = await encodePart([encodeMessage(end(1)), message]);
    const read = (await decodePart('p', part))[Symbol.iterator]();
    expect(read.next().value).toEqual(end(1));
    expect(() => read.next()).toThrow(expect.objectContaining({ reason: 'BACKUP_DAMAGED' }));
    expect(decoding).not.toHaveBeenCalled();
    decoding.mockRestore();
  });

  test('with a message longer than a message can be is refused', async () => {
    const value = Buffer.alloc(17 * 1024 * 1024);
    const row = {
      kind: TransferredRowKind.TRANSFERRED_ROW_KIND_DATA,
      queueId: 1,
      key: Buffer.from('p'),
      value,
      window: 0,
    };
    const part = await encodePart([encodeMessage({ part: { $case: 'rows', value: { rows: [row] } } })]);
    const messages = await decodePart('p', part);
    expect(() => [...messages]).toThrow(expect.objectContaining({ reason: 'BACKUP_DAMAGED' }));
  });

  test('that unpacks to more than it says is refused', async () => {
    const bomb = Buffer.from(await encodePart([Buffer.alloc(64 * 1024 * 1024)]));
    expect(bomb.byteLength).toBeLessThan(100_000);
    bomb.writeUInt32LE(1000, 8);
    bomb.writeUInt32LE(crc32(bomb.subarray(16), crc32(bomb.subarray(0, 12))), 12);
    await expect(decodePart('p', bomb)).rejects.toMatchObject({ reason: 'BACKUP_DAMAGED' });
  });
});

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(message.byteLength);
  return Buffer.concat([head, message]);
}
