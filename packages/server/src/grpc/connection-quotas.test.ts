import { connect } from 'node:http2';
import { hashOfToken, TaskMasterServiceService } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';
import type { CallerAccess } from '../access/caller-access.ts';
import { fakeEngine } from './testing/fake-engine.ts';
import { startServer } from './testing/start-server.ts';

test('a connection that was closed before its caller is identified does not count', async () => {
  const access = new Access({
    table: new AccessTable({
      principals: [{ name: 'shop', tokens: [hashOfToken('tm_shop')], limits: { connections: 1 } }],
    }),
  });
  const shop = await access.identify({ kind: 'bearer', token: 'tm_shop' });
  const asked = Promise.withResolvers<void>();
  const identified = Promise.withResolvers<CallerAccess>();
  access.identify = () => {
    asked.resolve();
    return identified.promise;
  };
  await using server = await startServer(fakeEngine(), { access });
  const session = connect(`http://127.0.0.1:${server.port}`);
  const call = session.request({
    ...{ ':method': 'POST', ':path': TaskMasterServiceService.updateTasks.path },
    ...{ 'content-type': 'application/grpc', te: 'trailers' },
  });
  // An empty message.
  call.on('error', () => {}).end(Buffer.alloc(5));
  await asked.promise;
  session.destroy();
  await expect.poll(() => server.server.connections).toBe(0);
  identified.resolve(shop);
  await expect.poll(() => server.ended.length).toBe(1);
  expect(shop.usage?.used('connections')).toBe(0);
});
