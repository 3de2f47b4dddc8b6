import { connect } from 'node:http2';
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { hashOfToken, TaskMasterServiceClient, TaskMasterServiceService } from '@taskmaster/proto';
import { Access, AccessTable, type CallerAccess } from '@taskmaster/server/access';
import { aPeek, errorInfoOf } from '@taskmaster/server/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

const limitedTo = (connections: number): Access =>
  new Access({
    table: new AccessTable({
      principals: [
        {
          name: 'shop',
          tokens: [hashOfToken('tm_shop')],
          limits: { connections },
          rights: [{ groups: ['*'], allow: ['read'] }],
        },
      ],
    }),
  });

test('a caller that says it is a router is counted: only a sealed header proves that', async () => {
  const engine = await openWatchedEngine();
  await using server = await startNodeServer(engine, { access: limitedTo(1) });
  const ask = (headers: Readonly<Record<string, string>>): Promise<string> => {
    const client = new TaskMasterServiceClient(`127.0.0.1:${server.port}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    onTestFinished(() => client.close());
    const metadata = new Metadata();
    for (const [name, value] of Object.entries({ authorization: 'Bearer tm_shop', ...headers }))
      metadata.set(name, value);
    return new Promise((resolve) => {
      client.peekTasks(aPeek(), metadata, (error: ServiceError | null) =>
        resolve(error === null ? 'served' : errorInfoOf(error).reason),
      );
    });
  };
  expect(await ask({})).toBe('served');
  expect(await ask({})).toBe('QUOTA_EXCEEDED');
  expect(await ask({ 'taskmaster-routed': '1' })).toBe('QUOTA_EXCEEDED');
  expect(await ask({ 'taskmaster-routed': '1', 'taskmaster-identity': 'shop' })).toBe('QUOTA_EXCEEDED');
});

test('a connection that was closed before its caller is identified does not count', async () => {
  const access = limitedTo(1);
  const shop = await access.identify({ kind: 'bearer', token: 'tm_shop' });
  const asked = Promise.withResolvers<void>();
  const identified = Promise.withResolvers<CallerAccess>();
  access.identify = () => {
    asked.resolve();
    return identified.promise;
  };
  await using server = await startNodeServer(await openWatchedEngine(), { access });
  const session = connect(`http://127.0.0.1:${server.port}`);
  const call = session.request({
    ':method': 'POST',
    ':path': TaskMasterServiceService.updateTasks.path,
    'content-type': 'application/grpc',
    te: 'trailers',
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
