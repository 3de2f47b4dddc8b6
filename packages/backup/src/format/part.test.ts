import type { BackupPartitionResponse } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { decodePart, encodeMessage, encodePart } from './part.ts';

const end = (lastTicket: number): BackupPartitionResponse => ({
  part: { $case: 'end', value: { lastTicket, tasks: 2, queues: 1 } },
});
const messages = [end(1), end(2), end(3)];
const part = await encodePart(messages.map(encodeMessage));

describe('a part', () => {
  test('is read as it was written', async () => {
    expect(await decodePart('p', part)).toEqual(messages);
    expect(await decodePart('p', await encodePart([]))).toEqual([]);
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
});
