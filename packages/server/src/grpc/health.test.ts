import { credentials, type ServiceError, status as Status } from '@grpc/grpc-js';
import { HealthClient, HealthService, HealthCheckResponse_ServingStatus as Serving } from '@taskmaster/proto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorInfoOf } from './testing/grpc-client.ts';
import { noService, startServer } from './testing/start-server.ts';

let server: Awaited<ReturnType<typeof startServer>>;
let client: HealthClient;

beforeAll(async () => {
  server = await startServer(noService);
  client = new HealthClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
});
afterAll(async () => {
  client.close();
  await server[Symbol.asyncDispose]();
});

const NAMES = ['', 'taskmaster.v1.TaskMasterService', 'taskmaster.v1.ClusterService'];

test('grpc.health.v1 lists every service', async () => {
  const statuses = await new Promise((resolve, reject) => {
    client.list({}, (error, answer) => (error ? reject(error) : resolve(answer.statuses)));
  });
  expect(statuses).toEqual(Object.fromEntries(NAMES.map((name) => [name, { status: Serving.SERVING }])));
});

test('grpc.health.v1 does not know other services', async () => {
  const refused = new Promise((resolve) => client.check({ service: 'other' }, resolve));
  expect(await refused).toMatchObject({ code: Status.NOT_FOUND, details: 'there is no service other' });
});

test('a watch of an unknown service says so and stays open', async () => {
  const watch = client.watch({ service: 'other' });
  const ended = new Promise((resolve) => watch.once('error', resolve));
  expect(await new Promise((resolve) => watch.once('data', resolve))).toEqual({ status: Serving.SERVICE_UNKNOWN });
  watch.cancel();
  expect(await ended).toMatchObject({ code: Status.CANCELLED });
});

test('a request that is not valid is refused with a reason', async () => {
  const { path } = HealthService.check;
  const asIs = (bytes: Buffer): Buffer => bytes;
  const refused = new Promise<ServiceError>((resolve, reject) => {
    client.makeUnaryRequest(path, asIs, asIs, Buffer.from([0x0a, 0x05, 0x61]), (error) => {
      if (error) resolve(error);
      else reject(new Error('it was served'));
    });
  });
  expect(errorInfoOf(await refused)).toMatchObject({ reason: 'MALFORMED_REQUEST' });
});
