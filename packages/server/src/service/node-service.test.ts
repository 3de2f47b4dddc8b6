import { expect, test } from 'vitest';
import { unlimitedAccess } from '../access/caller-access.ts';
import { fakeEngine } from '../grpc/testing/fake-engine.ts';
import { keptLog } from '../grpc/testing/start-server.ts';
import { waitingLeaseKeepsMessage } from '../grpc/testing/waiting-lease.ts';
import { createHandlers } from './handlers.ts';
import { createNodeService } from './node-service.ts';

test('a waiting lease does not keep its message in memory', async () => {
  const engine = fakeEngine({ leaseTasks: () => new Promise(() => {}) });
  const session = createNodeService(createHandlers(engine, keptLog())).openStream({
    address: '127.0.0.1:1',
    routed: false,
    forwarded: false,
    access: unlimitedAccess,
  });
  expect(await waitingLeaseKeepsMessage(session)).toBe(false);
  expect(engine.asked).toHaveLength(1);
});
