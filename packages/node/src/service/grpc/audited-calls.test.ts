import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { VirtualClock } from '@taskmaster/engine/virtual-clock';
import { hashOfToken, TaskMasterServiceService } from '@taskmaster/proto';
import { AuditLog } from '@taskmaster/server/audit';
import type { AuditEvent } from '@taskmaster/server/ports';
import { accessOf, errorInfoOf } from '@taskmaster/server/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startNodeServer } from '../../testing/start-node-server.ts';
import { openWatchedEngine } from '../../testing/watched-engine.ts';

const access = () => accessOf({ principals: [{ name: 'shop', tokens: [hashOfToken('tm_shop')], rights: [] }] });
const asIs = (bytes: Buffer): Buffer => bytes;

function clientOf(port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return client;
}

/** Opens a call with streams in both directions. Resolves with the reason of its end. */
function reasonOf(client: Client, path: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const call = client.makeBidiStreamRequest(path, asIs, asIs, metadata);
  return new Promise((resolve) => {
    call.on('error', (error: ServiceError) => resolve(errorInfoOf(error).reason));
    call.on('data', () => {});
  });
}

const REFLECTION = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';

test.each([
  ['Stream', TaskMasterServiceService.stream.path],
  ['ServerReflectionInfo', REFLECTION],
])('a caller without a valid credential is in the audit log and in the metrics: %s', async (method, path) => {
  const events: AuditEvent[] = [];
  const audit = { record: (event: AuditEvent) => void events.push(event) };
  await using server = await startNodeServer(await openWatchedEngine(), {
    access: access(),
    audit,
    isReflectionGuarded: true,
  });
  const client = clientOf(server.port);
  expect(await reasonOf(client, path, { authorization: 'Bearer tm_wrong' })).toBe('UNAUTHENTICATED');
  expect(events).toMatchObject([{ kind: 'refusal', action: method, result: 'UNAUTHENTICATED' }]);
  expect(server.ended).toEqual([{ method, reason: 'UNAUTHENTICATED' }]);
});

test('a stream whose credential is revoked is in the audit log', async () => {
  const events: AuditEvent[] = [];
  const audit = { record: (event: AuditEvent) => void events.push(event) };
  const rules = access();
  await using server = await startNodeServer(await openWatchedEngine(), { access: rules, audit });
  const ended = reasonOf(clientOf(server.port), TaskMasterServiceService.stream.path, {
    authorization: 'Bearer tm_shop',
  });
  await expect.poll(() => server.server.connections).toBe(1);
  await expect.poll(() => rules.usages).toBeDefined();
  rules.replace({ table: accessOf({ principals: [] }).table });
  expect(await ended).toBe('UNAUTHENTICATED');
  expect(events).toMatchObject([{ kind: 'refusal', action: 'Stream', result: 'UNAUTHENTICATED' }]);
});

test('the lines of callers without a credential are short, whatever they send', async () => {
  const lines: string[] = [];
  const clock = new VirtualClock();
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const audit = new AuditLog({ clock, log, append: (line) => void lines.push(line) });
  await using server = await startNodeServer(await openWatchedEngine(), { access: access(), audit });
  const client = clientOf(server.port);
  const { path, requestSerialize } = TaskMasterServiceService.subscribe;
  const long = '\u0001'.repeat(1_000_000);
  const request = { topic: long, queue: long, filter: undefined, ttlMs: 0, deleteQueue: false };
  const refused = new Promise<string>((resolve) => {
    client.makeUnaryRequest(path, requestSerialize, asIs, request, (error) =>
      resolve(error === null ? 'served' : errorInfoOf(error).reason),
    );
  });
  expect(await refused).toBe('UNAUTHENTICATED');
  expect(lines).toHaveLength(1);
  expect(lines[0]?.length).toBeLessThan(20_000);
});
