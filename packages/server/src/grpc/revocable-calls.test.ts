import { generateKeyPairSync } from 'node:crypto';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { Refusal } from '@taskmaster/engine/domain';
import { encodeStreamEntries, LeaseTasksRequest, TaskMasterServiceService } from '@taskmaster/proto';
import { SignJWT } from 'jose';
import { expect, onTestFinished, test } from 'vitest';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';
import { readPublicKey } from '../access/jwt-keys.ts';
import type { Caller } from '../calls/caller.ts';
import type { RawService } from '../calls/raw-service.ts';
import { errorInfoOf } from './testing/grpc-client.ts';
import { aLease } from './testing/requests.ts';
import { startServer } from './testing/start-server.ts';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const rules = { issuer: 'https://id.example', audience: 'taskmaster' };
/** What a server adds to the expiry of a JWT, in seconds. */
const TOLERANCE_S = 5;

const asIs = (bytes: Buffer): Buffer => bytes;
/** Waits until the call is cancelled, with a right that may end earlier. */
const waiting = (caller: Caller): Promise<never> => {
  const { access, signal } = caller;
  caller.beginWaiting?.(100, () => access.require('lease', 'shop'));
  return new Promise((_resolve, reject) => {
    const cancel = () => reject(new Refusal('CANCELLED', 'the call was cancelled'));
    signal?.addEventListener('abort', cancel);
  });
};

const service: RawService = {
  unary: { LeaseTasks: (_request, caller) => waiting(caller) },
  openStream: () => ({
    read: () => [{ kind: 'waiting', method: 'LeaseTasks', id: 1, bytes: 100, run: waiting }],
    hold: () => {},
    close: () => {},
  }),
};

const access = () =>
  new Access({
    table: new AccessTable({
      principals: [{ name: 'shop', jwtSubjects: ['shop'], rights: [{ groups: ['*'], allow: ['lease'] }] }],
    }),
    jwt: { keys: readPublicKey(publicKey.export({ type: 'spki', format: 'pem' }) as string), rules },
  });

/** The headers of a caller whose JWT expires in half a second. */
async function expiring(): Promise<Metadata> {
  const exp = Date.now() / 1000 - TOLERANCE_S + 0.5;
  const claims = { iss: rules.issuer, aud: rules.audience, sub: 'shop', exp };
  const metadata = new Metadata();
  metadata.set(
    'authorization',
    `Bearer ${await new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA' }).sign(privateKey)}`,
  );
  return metadata;
}

function clientOf(port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return client;
}

const lease = LeaseTasksRequest.encode(aLease({ waitMs: 600_000 })).finish();
const { leaseTasks, stream } = TaskMasterServiceService;

test('a lease that waits ends when the JWT of its caller expires', async () => {
  await using server = await startServer(service, { access: access() });
  const client = clientOf(server.port);
  const metadata = await expiring();
  const ended = await new Promise<ServiceError | null>((resolve) => {
    client.makeUnaryRequest(leaseTasks.path, asIs, asIs, Buffer.from(lease), metadata, resolve);
  });
  expect(ended && errorInfoOf(ended).reason).toBe('UNAUTHENTICATED');
});

test('a stream ends when the JWT of its caller expires, so that the next one brings a new JWT', async () => {
  await using server = await startServer(service, { access: access() });
  const call = clientOf(server.port).makeBidiStreamRequest(stream.path, asIs, asIs, await expiring());
  call.on('data', () => {}).write(encodeStreamEntries([{ id: 1, field: 3, bytes: lease }]));
  const ended = await new Promise<ServiceError>((resolve) => call.once('error', resolve));
  expect(errorInfoOf(ended).reason).toBe('UNAUTHENTICATED');
});
