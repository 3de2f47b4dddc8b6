import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { encodeToBuffer, TaskMasterServiceService, UpdateTasksRequest } from '@taskmaster/proto';
import { aDequeue, anEnqueue, anUpdate, errorInfoOf } from '@taskmaster/server/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestCluster, type TestCluster } from './support/test-cluster.ts';

/* Callers share a stream from a proxy to each node. Damaged updates of one caller do not harm the updates of others. */

const ROUNDS = 40;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(() => cluster[Symbol.asyncDispose]());

const { path } = TaskMasterServiceService.updateTasks;

/** Resolves with `served`, or with the reason of the refusal. */
function send(client: Client, update: Uint8Array): Promise<string> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    const settle = (error: ServiceError | null): void => resolve(error === null ? 'served' : errorInfoOf(error).reason);
    client.makeUnaryRequest(path, asIs, asIs, Buffer.from(update), settle);
  });
}

test.each([
  ['is longer than it says', (_valid: Buffer) => Buffer.from('0a7f0a03616263', 'hex')],
  ['stops in the middle, and names another call', (valid: Buffer) => Buffer.concat([valid, Buffer.from([0, 8, 1])])],
  ['has a field of the number 0', (valid: Buffer) => Buffer.concat([valid, Buffer.from([2, 0])])],
  ['ends a group', (valid: Buffer) => Buffer.concat([valid, Buffer.from([0x0c])])],
  ['has an item that ends behind it', (valid: Buffer) => Buffer.concat([valid, Buffer.from([0x12, 3, 0x0a, 5])])],
  [
    'has a number without an end',
    (valid: Buffer) => Buffer.concat([valid, Buffer.from('1a0918ffffffffffffffff', 'hex')]),
  ],
])('others are served while an update %s', async (what, damage) => {
  const clientOf = () => new Client(`127.0.0.1:${cluster.port}`, credentials.createInsecure(), { 'test.only': what });
  const [attacker, victim] = [clientOf(), clientOf()];
  try {
    const outcomes = await Promise.all(
      Array.from({ length: ROUNDS }, (_, round) => {
        const queue = `${cluster.groupAt(round % 3)}#shared`;
        const pid = Buffer.from(`${what} ${round}`);
        // A removal of a task that does not exist is refused, whatever the attacker's call with the next id does.
        const missing = encodeToBuffer(
          UpdateTasksRequest,
          anUpdate({ dequeue: [aDequeue({ queue, pid, leaseToken: 0 })] }),
        );
        const enqueue = encodeToBuffer(UpdateTasksRequest, anUpdate({ enqueue: [anEnqueue({ queue, pid })] }));
        return Promise.all([send(attacker, damage(missing)), send(victim, missing), send(victim, enqueue)]);
      }),
    );
    expect(new Set(outcomes.map(([attack]) => attack))).toEqual(new Set(['MALFORMED_REQUEST']));
    for (const [, removed, created] of outcomes) expect([removed, created]).toEqual(['TASK_NOT_FOUND', 'served']);
  } finally {
    attacker.close();
    victim.close();
  }
});
