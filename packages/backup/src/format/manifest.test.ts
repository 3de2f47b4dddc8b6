import { createHash } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { decodeManifest, encodeManifest, MANIFEST, type Manifest, partName, partOfName, recordOf } from './manifest.ts';

const manifest: Manifest = {
  clusterId: 'c1',
  nodeId: '',
  partitionCount: 2,
  release: '1.2.3',
  begunAt: '2026-01-01T00:00:00.000Z',
  finishedAt: '2026-01-01T00:00:01.000Z',
  partitions: [0, 1].map((id) => ({
    id,
    nodeId: 'n1',
    epoch: 1,
    nowMs: 5,
    lastTicket: 7,
    tasks: 1,
    queues: 1,
    parts: [recordOf(partName(id, 0), Buffer.from(`part ${id}`))],
  })),
};

/** A manifest with other content and a correct checksum. */
function withContent(change: (content: Record<string, unknown>) => void): Buffer {
  const { sha256: _, ...content } = JSON.parse(encodeManifest(manifest).toString());
  change(content);
  const sha256 = createHash('sha256').update(JSON.stringify(content)).digest('hex');
  return Buffer.from(JSON.stringify({ ...content, sha256 }));
}

describe('a manifest', () => {
  test('is read as it was written', () => {
    expect(decodeManifest(MANIFEST, encodeManifest(manifest))).toEqual(manifest);
  });

  test('is refused with any flipped bit', () => {
    const bytes = encodeManifest(manifest);
    const accepted = [];
    for (let bit = 0; bit < bytes.byteLength * 8; bit++) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      try {
        decodeManifest(MANIFEST, flipped);
        accepted.push(bit);
      } catch (error) {
        expect(error).toMatchObject({ reason: expect.stringMatching(/BACKUP_DAMAGED|BACKUP_TOO_NEW|NOT_A_BACKUP/) });
      }
    }
    expect(accepted).toEqual([]);
  });

  test.each([
    ['a newer version', (content: Record<string, unknown>) => (content.version = 2), 'BACKUP_TOO_NEW'],
    ['another format', (content: Record<string, unknown>) => (content.format = 'zip'), 'NOT_A_BACKUP'],
    ['a missing field', (content: Record<string, unknown>) => delete content.clusterId, 'BACKUP_DAMAGED'],
    ['a wrong field', (content: Record<string, unknown>) => (content.partitionCount = -1), 'BACKUP_DAMAGED'],
    [
      'a name that leads out of the place',
      (content: Record<string, unknown>) => {
        content.partitions = [{ ...manifest.partitions[0], parts: [recordOf('../secret', Buffer.from('x'))] }];
      },
      'BACKUP_DAMAGED',
    ],
    [
      'a partition that the cluster cannot have',
      (content: Record<string, unknown>) => (content.partitionCount = 1),
      'BACKUP_DAMAGED',
    ],
  ])('is refused with %s', (_what, change, reason) => {
    const bytes = withContent((content) => void change(content));
    expect(() => decodeManifest(MANIFEST, bytes)).toThrow(expect.objectContaining({ reason }));
  });

  test('is refused if it costs more memory than a manifest of its size, before it is parsed', () => {
    const parse = vi.spyOn(JSON, 'parse');
    try {
      for (const fill of ['[],', '0,', '{},', '"",']) {
        const bytes = Buffer.alloc(3_000_000, fill);
        bytes.write('[');
        expect(() => decodeManifest(MANIFEST, bytes), fill).toThrow('more values than a manifest of its size');
      }
      expect(parse).not.toHaveBeenCalled();
    } finally {
      parse.mockRestore();
    }
  });

  test('is refused if it is nested too deeply', () => {
    const deep = `${'['.repeat(20_000)}"${' '.repeat(300_000)}"${']'.repeat(20_000)}`;
    const bytes = Buffer.from(`{"format":"taskmaster-backup","version":1,"x":${deep}}`);
    expect(() => decodeManifest(MANIFEST, bytes)).toThrow(expect.objectContaining({ reason: 'BACKUP_DAMAGED' }));
  });

  test('is refused if a part would be longer than a part can be', () => {
    const bytes = withContent((content) => {
      const [partition] = content.partitions as { parts: { bytes: number }[] }[];
      for (const part of partition?.parts ?? []) part.bytes = 2 ** 40;
    });
    expect(() => decodeManifest(MANIFEST, bytes)).toThrow(expect.objectContaining({ reason: 'BACKUP_DAMAGED' }));
  });
});

test('the name of a part has its position, and names sort in the order of reading', () => {
  expect(partOfName(partName(7, 12))).toEqual({ partition: 7, index: 12 });
  const names = [partName(1, 0), partName(1, 1), partName(1, 10), partName(2, 0), partName(10, 0)];
  expect(names.toSorted()).toEqual(names);
  for (const name of [MANIFEST, 'partition-1-1', 'partition-00001-00001.tmp', '../partition-00001-00001']) {
    expect(partOfName(name)).toBe(undefined);
  }
});
