import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { keptLog } from '@taskmaster/engine/testing';
import { type MethodKey, methodKeys, methods } from '@taskmaster/proto';
import { errorInfoOf, grpcClient, sampleBytes } from '@taskmaster/server/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningNode, startNode } from './node.ts';

let dataDir: string;
let node: RunningNode;
let client: ReturnType<typeof grpcClient>;
const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1));

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'taskmaster-rpc-'));
  const store = { reserveBytes: 1024 * 1024 };
  node = await startNode({ dataDir, grpcPort: 0, httpPort: 0, store }, { log: keptLog() });
  client = grpcClient(portOf(node.grpcAddress));
});
afterAll(async () => {
  client[Symbol.dispose]();
  await node.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

type Outcome = { readonly reason: string } | { readonly reply: unknown };

function overGrpc(key: MethodKey, request: Buffer): Promise<Outcome> {
  const { path, responseDeserialize } = methods[key];
  const asIs = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    client.raw.makeUnaryRequest(path, asIs, asIs, request, (error: ServiceError | null, bytes?: Buffer) => {
      if (error === null && bytes !== undefined) resolve({ reply: responseDeserialize(bytes) });
      else resolve({ reason: error === null ? '' : errorInfoOf(error).reason });
    });
  });
}

async function overHttp(key: MethodKey, request: Buffer): Promise<Outcome> {
  const { name, responseDeserialize } = methods[key];
  const headers = { 'content-type': 'application/proto', 'x-taskmaster-console': '1' };
  const reply = await fetch(`http://${node.httpAddress}/rpc/${name}`, {
    method: 'POST',
    headers,
    body: new Uint8Array(request),
  });
  if (reply.ok) return { reply: responseDeserialize(Buffer.from(await reply.arrayBuffer())) };
  return { reason: ((await reply.json()) as { readonly reason: string }).reason };
}

/** Without what differs between two calls: group, instants, ids, ports, and whether a bulk run has ended by itself. */
const comparable = (outcome: Outcome): string =>
  JSON.stringify(outcome, (name, value: unknown) => (typeof value === 'number' && name !== 'code' ? 0 : value))
    .replaceAll(/127\.0\.0\.1:\d+/g, 'address')
    .replaceAll(/"(\w*[iI]d|nextPosition|position)":"[^"]*"/g, '"$1":""')
    .replaceAll(/over-(grpc|http)/g, 'over')
    .replace(/"cancelled":\w+/, '');

const unary = methodKeys.filter((key) => key !== 'backupPartition');

test.each(unary)('%s answers over HTTP what it answers over gRPC', async (key) => {
  const first = await overGrpc(key, sampleBytes(key, 'over-grpc#mail'));
  const second = await overHttp(key, sampleBytes(key, 'over-http#mail'));
  expect(comparable(second)).toBe(comparable(first));
});

test.each(unary)('%s refuses over HTTP what it refuses over gRPC: bytes that are no message', async (key) => {
  const garbage = Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]);
  const [first, second] = [await overGrpc(key, garbage), await overHttp(key, garbage)];
  expect(second).toEqual(first);
  expect(second).toHaveProperty('reason');
});

test('a backup is not for pages', async () => {
  expect(await overHttp('backupPartition', sampleBytes('backupPartition', ''))).toEqual({ reason: 'UNKNOWN_METHOD' });
});
