import { sourceOf } from '@taskmaster/cli/testing';
import { makeError } from '@taskmaster/client/internal';
import { expect, test } from 'vitest';
import { clientSetUp } from '../client/support/client-set-up.ts';

const request = { partition: 0, unchangedSince: undefined, maxBytesPerSecond: 0 };
const busy = makeError('busy', { reason: 'TOO_MANY_BACKUPS', retryDelayMs: 1 });

test('a node with its maximum of backups is asked until it has room, longer than the client repeats a call', async () => {
  const { client, timing, transport } = clientSetUp();
  transport.faults.backupPartition.push(
    ...Array.from({ length: 25 }, () => ({ when: 'before', error: busy }) as const),
  );
  const { signal } = new AbortController();
  let isOver = false;
  const kinds: (string | undefined)[] = [];
  const read = async (): Promise<void> => {
    for await (const { part } of sourceOf(client).backupPartition(request, { signal })) kinds.push(part?.$case);
    isOver = true;
  };
  const reading = read();
  while (!isOver) await timing.advance(1_000);
  await reading;
  expect(kinds).toEqual(['header', 'end']);
  expect(transport.faults.backupPartition).toEqual([]);
});

test('a node that is busy is not asked again after the signal', async () => {
  const { client, timing, transport } = clientSetUp();
  const later = makeError('busy', { reason: 'TOO_MANY_BACKUPS', retryDelayMs: 60_000 });
  transport.faults.backupPartition.push({ when: 'before', error: later });
  const giveUp = new AbortController();
  const parts = sourceOf(client).backupPartition(request, { signal: giveUp.signal })[Symbol.asyncIterator]();
  const refused = expect(parts.next()).rejects.toMatchObject({ name: 'AbortError' });
  await timing.advance(1_000);
  giveUp.abort();
  await refused;
});

test('other errors end the stream', async () => {
  const { client, transport } = clientSetUp();
  transport.faults.backupPartition.push({ when: 'before', error: makeError('no', { reason: 'INVALID_ARGUMENT' }) });
  const { signal } = new AbortController();
  const parts = sourceOf(client).backupPartition(request, { signal })[Symbol.asyncIterator]();
  await expect(parts.next()).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' });
});
