import { readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { expect, test, vi } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

test('the audit log has the management calls and the changes of the membership, without payloads', async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, 'audit.log');
  await using node = await startNode({ flags: ['--bootstrap', '--name=a', `--audit-file=${path}`] });
  await using client = await connect(node.endpoint);
  const linesOf = (file: string): Record<string, unknown>[] =>
    readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);

  await client.queue('shop#mail').enqueue('a secret of a customer');
  await client.queue('shop#mail').delete();
  await client.queue('shop#mail').resetLeases();
  await client.schedules.put('shop#s', { queue: 'shop#mail', data: 'a secret of a customer', every: '1h' });
  await client.schedules.pause('shop#s');
  await client.schedules.trigger('shop#s');
  await client.schedules.delete('shop#s');
  const orders = client.topic('shop#orders');
  await orders.subscribe('shop#worker', { ttl: '1m' });
  await orders.subscribe('shop#mail');
  await orders.unsubscribe('shop#mail');
  await client.queue('shop#bulk').enqueue('a secret of a customer');
  const run = await client.bulk({ action: 'delete', queues: 'shop#bulk' });
  await run.done({ timeout: '30s' });
  await vi.waitFor(() => expect(linesOf(path)).toHaveLength(11), { timeout: 30_000 });
  expect(linesOf(path)).toMatchObject(
    [
      { kind: 'membership', action: 'active', target: 'a', result: 'ok' },
      { kind: 'management', action: 'DeleteQueue', target: 'shop#mail', result: 'ok', address: /^127\.0\.0\.1:/ },
      { kind: 'management', action: 'ResetLeases', target: 'shop#mail', result: 'ok' },
      { kind: 'management', action: 'PutSchedule', target: 'shop#s', result: 'ok' },
      { kind: 'management', action: 'PauseSchedule', target: 'shop#s', result: 'ok', paused: true },
      { kind: 'management', action: 'TriggerSchedule', target: 'shop#s', result: 'ok' },
      { kind: 'management', action: 'DeleteSchedule', target: 'shop#s', result: 'ok' },
      { kind: 'management', action: 'Subscribe', target: 'shop#orders', queue: 'shop#mail', result: 'ok' },
      { kind: 'management', action: 'Unsubscribe', target: 'shop#orders', queue: 'shop#mail', result: 'ok' },
      { kind: 'management', action: 'StartBulkRun', target: 'shop#bulk', run: run.id, result: 'ok' },
      {
        kind: 'management',
        action: 'BulkRunEnded',
        target: 'shop#bulk',
        run: run.id,
        bulk: 'BULK_ACTION_DELETE',
        state: 'BULK_RUN_STATE_DONE',
        lookedAt: 1,
        changed: 1,
        result: 'ok',
      },
    ].map(({ address, ...line }) => ({ ...line, ...(address && { address: expect.stringMatching(address) }) })),
  );
  expect(readFileSync(path, 'utf8')).not.toContain('secret');
  expect(statSync(path).mode & 0o777).toBe(0o600);

  renameSync(path, `${path}.1`);
  await expect
    .poll(async () => {
      await client.queue(`shop#${Math.random()}`).delete();
      return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    })
    .toBeGreaterThan(0);
});
