import { generateKeyPairSync, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials, Metadata, type MethodDefinition, type ServiceError } from '@grpc/grpc-js';
import {
  AccessServiceService,
  BackupServiceService,
  BatchLeaseTasksResponse,
  BatchUpdateTasksResponse,
  ClusterServiceService,
  ExternalScalerService,
  HealthService,
  hashOfToken,
  ListQueuesResponse,
  ListSchedulesResponse,
  NO_SETTINGS,
  PeerServiceService,
  StreamRequest,
  StreamResponse,
  TaskMasterServiceService,
} from '@taskmaster/proto';
import {
  aBulkSpec,
  aDequeue,
  aGet,
  aLease,
  anEnqueue,
  anUpdate,
  aPeek,
  aSchedule,
  errorInfoOf,
  someSchedules,
} from '@taskmaster/server/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';

/* Every method of every service, with each kind of credential, at a node and at a proxy. */

const QUEUE = 'shop#mail';
const update = anUpdate({ enqueue: [anEnqueue({ queue: QUEUE })] });
const settle = anUpdate({ dequeue: [aDequeue({ queue: QUEUE, leaseToken: 0 })] });
const lease = aLease({ queues: [QUEUE] });
const scaled = { name: 'x', namespace: 'x', scalerMetadata: { group: 'shop', queue: 'mail', targetTasks: '5' } };

/**
 * What a method needs. `open`: nothing. `seal`: a key of the cluster. `identity`: any principal. `right`: the right of the owner.
 * `item`: the right, and each item of a batch is refused for itself.
 */
type Need = 'open' | 'seal' | 'identity' | 'right' | 'item';

interface Asked {
  readonly need: Need;
  readonly request?: object;
}

/** By path. A method without an entry fails the test. */
const ASKED: Readonly<Record<string, Asked>> = {
  '/taskmaster.v1.TaskMasterService/UpdateTasks': { need: 'right', request: update },
  '/taskmaster.v1.TaskMasterService/LeaseTasks': { need: 'right', request: lease },
  '/taskmaster.v1.TaskMasterService/BatchUpdateTasks': { need: 'item', request: { requests: [update, settle] } },
  '/taskmaster.v1.TaskMasterService/BatchLeaseTasks': { need: 'item', request: { requests: [lease, lease] } },
  '/taskmaster.v1.TaskMasterService/Stream': { need: 'item' },
  '/taskmaster.v1.TaskMasterService/ListQueues': {
    need: 'right',
    request: { filter: { nameRegex: '', group: 'shop' }, limit: 0, pageToken: '' },
  },
  '/taskmaster.v1.TaskMasterService/GetQueueStats': { need: 'right', request: { queues: [QUEUE], filter: undefined } },
  '/taskmaster.v1.TaskMasterService/GetOverview': {
    need: 'identity',
    request: { afterUnixMs: 0, includeChanges: false },
  },
  '/taskmaster.v1.TaskMasterService/PeekTasks': { need: 'right', request: aPeek({ queue: QUEUE }) },
  '/taskmaster.v1.TaskMasterService/GetTasks': { need: 'right', request: aGet({ queue: QUEUE }) },
  '/taskmaster.v1.TaskMasterService/WaitForTasks': {
    need: 'right',
    request: { tasks: [{ queue: QUEUE, pid: Buffer.from('a') }], waitMs: 0 },
  },
  '/taskmaster.v1.TaskMasterService/ReadEvents': {
    need: 'right',
    request: { queues: 'shop#*', after: '', kinds: [], task: undefined, maxEvents: 0, waitMs: 0 },
  },
  '/taskmaster.v1.TaskMasterService/PutQueueSettings': {
    need: 'right',
    request: { queues: 'shop#other', settings: { ...NO_SETTINGS, leaseDurationMs: 1000 } },
  },
  '/taskmaster.v1.TaskMasterService/DeleteQueueSettings': { need: 'right', request: { queues: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/ListQueueSettings': { need: 'right', request: { queue: 'shop#' } },
  '/taskmaster.v1.TaskMasterService/PauseQueues': {
    need: 'right',
    request: { queues: 'shop#other', reason: '', durationMs: 0, untilUnixMs: 0 },
  },
  '/taskmaster.v1.TaskMasterService/LimitQueues': {
    need: 'right',
    request: { queues: 'shop#other', maxLeased: 1, rate: undefined },
  },
  '/taskmaster.v1.TaskMasterService/UnlimitQueues': { need: 'right', request: { queues: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/StartBulkRun': {
    need: 'right',
    request: { id: 'x', queues: 'shop#other', spec: aBulkSpec(), preview: false, allTasks: false },
  },
  '/taskmaster.v1.TaskMasterService/ListBulkRuns': { need: 'right', request: { queue: 'shop#', id: '' } },
  '/taskmaster.v1.TaskMasterService/CancelBulkRun': { need: 'right', request: { queue: 'shop#', id: 'x' } },
  '/taskmaster.v1.TaskMasterService/ResumeQueues': { need: 'right', request: { queues: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/DeleteQueue': { need: 'right', request: { queue: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/ResetLeases': { need: 'right', request: { queue: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/PutSchedule': { need: 'right', request: { schedule: 'shop#s', spec: aSchedule() } },
  '/taskmaster.v1.TaskMasterService/ListSchedules': { need: 'right', request: someSchedules() },
  '/taskmaster.v1.TaskMasterService/DeleteSchedule': { need: 'right', request: { schedule: 'shop#other' } },
  '/taskmaster.v1.TaskMasterService/PauseSchedule': { need: 'right', request: { schedule: 'shop#s', paused: true } },
  '/taskmaster.v1.TaskMasterService/TriggerSchedule': { need: 'right', request: { schedule: 'shop#s' } },
  '/taskmaster.v1.TaskMasterService/Subscribe': {
    need: 'right',
    request: { topic: 'shop#orders', queue: QUEUE, filter: undefined, ttlMs: 0, deleteQueue: false },
  },
  '/taskmaster.v1.TaskMasterService/Unsubscribe': { need: 'right', request: { topic: 'shop#orders', queue: QUEUE } },
  '/taskmaster.v1.TaskMasterService/ListSubscriptions': { need: 'right', request: { topic: 'shop#orders' } },
  '/taskmaster.v1.AccessService/WhoAmI': { need: 'identity', request: { principal: '', questions: [] } },
  '/taskmaster.v1.ClusterService/ListMembers': { need: 'identity', request: {} },
  '/taskmaster.v1.ClusterService/ListPartitions': { need: 'identity', request: {} },
  '/taskmaster.v1.ClusterService/DrainMember': { need: 'right', request: { name: 'no such member' } },
  '/taskmaster.v1.ClusterService/ResumeMember': { need: 'right', request: { name: 'no such member' } },
  '/taskmaster.v1.ClusterService/RemoveMember': {
    need: 'right',
    request: { name: 'no such member', acceptLoss: true, also: [], waitMs: 0 },
  },
  '/taskmaster.v1.BackupService/BackupPartition': {
    need: 'right',
    request: { partition: 1, unchangedSince: undefined, maxBytesPerSecond: 0 },
  },
  '/externalscaler.ExternalScaler/IsActive': { need: 'right', request: scaled },
  '/externalscaler.ExternalScaler/GetMetrics': { need: 'right', request: { scaledObjectRef: scaled, metricName: '' } },
  '/externalscaler.ExternalScaler/StreamIsActive': { need: 'right', request: scaled },
  '/externalscaler.ExternalScaler/GetMetricSpec': { need: 'identity', request: scaled },
  '/externalscaler.ExternalScaler/StreamMetricSpec': { need: 'identity', request: scaled },
  '/grpc.health.v1.Health/Check': { need: 'open', request: { service: '' } },
  '/grpc.health.v1.Health/Watch': { need: 'open', request: { service: '' } },
  '/grpc.health.v1.Health/List': { need: 'open', request: {} },
};

const OF_NODE = [
  TaskMasterServiceService,
  AccessServiceService,
  ClusterServiceService,
  BackupServiceService,
  HealthService,
  PeerServiceService,
];
const OF_PROXY = [
  TaskMasterServiceService,
  AccessServiceService,
  ClusterServiceService,
  BackupServiceService,
  HealthService,
  ExternalScalerService,
];

type Method = MethodDefinition<object, object>;
const methodsOf = (services: readonly object[]): Method[] =>
  services.flatMap((service) => Object.values(service) as Method[]);
const needOf = ({ path }: Method): Need | undefined =>
  path.startsWith('/taskmaster.v1.PeerService/') ? 'seal' : ASKED[path]?.need;

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const base64 = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');

function jwt(expiresInS: number, sub = 'owner'): string {
  const claims = { iss: 'test', aud: 'taskmaster', sub, exp: Math.floor(Date.now() / 1000) + expiresInS };
  const text = `${base64({ alg: 'EdDSA' })}.${base64(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`;
}

function rules(tokens: readonly string[]): string {
  const all = ['enqueue', 'lease', 'read', 'manage-queues'];
  return JSON.stringify({
    principals: [
      {
        name: 'owner',
        tokens: tokens.map(hashOfToken),
        jwtSubjects: ['owner'],
        rights: [{ groups: ['shop'], allow: all }, { allow: ['manage-cluster'] }],
      },
      { name: 'stranger', tokens: [hashOfToken('tm_stranger')], rights: [{ groups: ['other-*'], allow: all }] },
    ],
  });
}

const CREDENTIALS: Readonly<Record<string, string | undefined>> = {
  none: undefined,
  malformed: 'Basic b3duZXI6cGFzc3dvcmQ=',
  wrong: 'Bearer tm_wrong',
  'the hash of a token': `Bearer ${hashOfToken('tm_owner')}`,
  expired: `Bearer ${jwt(-60)}`,
  insufficient: 'Bearer tm_stranger',
  right: 'Bearer tm_owner',
  'a JWT': `Bearer ${jwt(600)}`,
};

function expected(need: Need, credential: string): string {
  if (need === 'open') return 'served';
  if (need === 'seal') return 'WRONG_KEY';
  if (credential === 'right' || credential === 'a JWT') return 'served';
  if (credential !== 'insufficient') return 'UNAUTHENTICATED';
  return need === 'identity' ? 'served' : 'PERMISSION_DENIED';
}

let directory: TemporaryDirectory;
let accessFile: string;
let node: RunningNode;
interface Target {
  readonly name: string;
  readonly client: Client;
  /** `host:port` of its HTTP. */
  readonly http: string;
  readonly services: readonly object[];
}

const targets: Target[] = [];
const opened = new AsyncDisposableStack();
beforeAll(async () => {
  directory = opened.use(await temporaryDirectory());
  accessFile = join(directory.path, 'access.yaml');
  const keyFile = join(directory.path, 'key');
  const jwtKey = join(directory.path, 'jwt.pem');
  writeFileSync(accessFile, rules(['tm_owner', 'tm_revoked']), { mode: 0o600 });
  writeFileSync(keyFile, 'a key for this test only', { mode: 0o600 });
  writeFileSync(jwtKey, publicKey.export({ type: 'spki', format: 'pem' }));
  const flags = [
    `--access-file=${accessFile}`,
    `--access-jwt-key-file=${jwtKey}`,
    '--access-jwt-issuer=test',
    '--access-jwt-audience=taskmaster',
    `--cluster-key-file=${keyFile}`,
  ];
  node = opened.use(await startNode({ flags: ['--bootstrap', '--gossip-port=0', ...flags] }));
  const proxy = opened.use(await startProxy([node.endpoint], flags));
  const clientOf = (endpoint: string) =>
    opened.adopt(new Client(endpoint, credentials.createInsecure()), (client) => client.close());
  targets.push({
    name: 'node',
    client: clientOf(node.endpoint),
    http: `127.0.0.1:${node.httpPort}`,
    services: OF_NODE,
  });
  targets.push({ name: 'proxy', client: clientOf(proxy.endpoint), http: proxy.http, services: OF_PROXY });
});
afterAll(() => opened.disposeAsync());

function metadataOf(authorization: string | undefined): Metadata {
  const metadata = new Metadata();
  if (authorization !== undefined) metadata.set('authorization', authorization);
  return metadata;
}

const asIs = (bytes: Buffer): Buffer => bytes;
const reasonIn = (error: ServiceError): string => errorInfoOf(error).reason || `status ${error.code}`;
/** These reasons say that the caller was admitted: the request itself had no effect. */
const ADMITTED = new Set(['TASK_NOT_FOUND', 'TASK_EXISTS', 'UNKNOWN_MEMBER', 'NOT_LEASED', 'LEASE_LOST', 'OVERLOADED']);
const outcomeOf = (reason: string): string => (ADMITTED.has(reason) ? 'served' : reason);

/** The reasons in the results of a batch or of a stream. */
function reasonsIn(method: Method, reply: Buffer): string[] {
  const name = method.path.split('/').at(-1);
  if (name === 'BatchUpdateTasks' || name === 'BatchLeaseTasks') {
    const { results } =
      name === 'BatchUpdateTasks' ? BatchUpdateTasksResponse.decode(reply) : BatchLeaseTasksResponse.decode(reply);
    return results.map(({ result }) => (result?.$case === 'error' ? outcomeOf(result.value.reason) : 'served'));
  }
  return ['served'];
}

/** The outcome of one call: `served`, or the reason of its refusal. */
async function outcome(client: Client, method: Method, authorization: string | undefined): Promise<string> {
  if (method.requestStream) return streamOutcome(client, authorization);
  const metadata = metadataOf(authorization);
  const asked = ASKED[method.path]?.request;
  const request = asked === undefined ? Buffer.alloc(0) : method.requestSerialize(asked);
  if (method.responseStream) {
    const call = client.makeServerStreamRequest(method.path, asIs, asIs, request, metadata);
    return new Promise((resolve) => {
      call.once('data', () => {
        resolve('served');
        call.cancel();
      });
      call.on('error', (error: ServiceError) => resolve(outcomeOf(reasonIn(error))));
    });
  }
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      method.path,
      asIs,
      asIs,
      request,
      metadata,
      { deadline: Date.now() + 10_000 },
      (error, reply) => {
        if (error !== null) resolve(outcomeOf(reasonIn(error)));
        else resolve([...new Set(reasonsIn(method, reply ?? Buffer.alloc(0)))].join(' and '));
      },
    );
  });
}

/** The methods that are also served over HTTP. */
const overHttp = methodsOf([TaskMasterServiceService, AccessServiceService, ClusterServiceService]).filter(
  ({ requestStream, responseStream }) => !requestStream && !responseStream,
);

/** The outcome of one call over HTTP. */
async function httpOutcome(
  http: string,
  method: Method,
  authorization: string | undefined,
  asked: object | undefined = ASKED[method.path]?.request,
): Promise<string> {
  const reply = await fetch(`http://${http}/rpc/${method.path.split('/').at(-1)}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/proto',
      'x-taskmaster-console': '1',
      'x-timeout-ms': '25000',
      ...(authorization !== undefined && { authorization }),
    },
    body: new Uint8Array(asked === undefined ? Buffer.alloc(0) : method.requestSerialize(asked)),
  });
  if (!reply.ok) return outcomeOf(((await reply.json()) as { readonly reason: string }).reason);
  return [...new Set(reasonsIn(method, Buffer.from(await reply.arrayBuffer())))].join(' and ');
}

/** The outcome of the messages of a stream, all kinds of them. */
function streamOutcome(client: Client, authorization: string | undefined): Promise<string> {
  const { path } = TaskMasterServiceService.stream;
  const call = client.makeBidiStreamRequest(path, asIs, asIs, metadataOf(authorization));
  const calls: StreamRequest['calls'] = [
    { id: 1, call: { $case: 'update', value: update } },
    { id: 2, call: { $case: 'update', value: settle } },
    { id: 3, call: { $case: 'lease', value: lease } },
  ];
  const found: string[] = [];
  return new Promise((resolve) => {
    call.on('data', (message: Buffer) => {
      for (const { result } of StreamResponse.decode(message).results) {
        found.push(result?.$case === 'error' ? outcomeOf(result.value.reason) : 'served');
      }
      if (found.length === calls.length) {
        call.end();
        resolve([...new Set(found)].join(' and '));
      }
    });
    call.on('error', (error: ServiceError) => resolve(reasonIn(error)));
    call.write(Buffer.from(StreamRequest.encode({ calls }).finish()));
  });
}

describe('every method needs what its row says', () => {
  test('and has a row', () => {
    const all = methodsOf([...OF_NODE, ...OF_PROXY]);
    expect(all.filter((method) => needOf(method) === undefined).map(({ path }) => path)).toEqual([]);
    expect(all.length).toBeGreaterThan(30);
  });

  test.each(Object.keys(CREDENTIALS))('with the credential: %s', async (credential) => {
    for (const { name, client, services } of targets) {
      for (const method of methodsOf(services)) {
        const need = needOf(method) ?? 'open';
        const found = await outcome(client, method, CREDENTIALS[credential]);
        expect(`${name} ${method.path}: ${found}`).toBe(`${name} ${method.path}: ${expected(need, credential)}`);
      }
    }
  });
});

test('a listing has only what the caller may read', async () => {
  const request = Buffer.from(
    TaskMasterServiceService.listQueues.requestSerialize({ filter: undefined, limit: 0, pageToken: '' }),
  );
  for (const { client } of targets) {
    const enqueue = TaskMasterServiceService.updateTasks as unknown as Method;
    expect(await outcome(client, enqueue, CREDENTIALS.right)).toBe('served');
    const list = (authorization: string): Promise<string[]> =>
      new Promise((resolve, reject) => {
        const { path } = TaskMasterServiceService.listQueues;
        client.makeUnaryRequest(path, asIs, asIs, request, metadataOf(authorization), (error, reply) => {
          if (error !== null) reject(error);
          else resolve(ListQueuesResponse.decode(reply ?? Buffer.alloc(0)).queues.map(({ queue }) => queue));
        });
      });
    expect(await list('Bearer tm_owner')).toContain(QUEUE);
    expect(await list('Bearer tm_stranger')).toEqual([]);
  }
});

test('a listing of schedules has only those that the caller may read', async () => {
  const { path, requestSerialize } = TaskMasterServiceService.listSchedules;
  const request = requestSerialize(someSchedules({ group: undefined }));
  for (const { client } of targets) {
    expect(await outcome(client, TaskMasterServiceService.putSchedule as unknown as Method, CREDENTIALS.right)).toBe(
      'served',
    );
    const list = (authorization: string): Promise<string[]> =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(path, asIs, asIs, request, metadataOf(authorization), (error, reply) => {
          if (error !== null) reject(error);
          else
            resolve(ListSchedulesResponse.decode(reply ?? Buffer.alloc(0)).schedules.map(({ schedule }) => schedule));
        });
      });
    expect(await list('Bearer tm_owner')).toContain('shop#s');
    expect(await list('Bearer tm_stranger')).toEqual([]);
    await expect(list('Bearer tm_unknown')).rejects.toMatchObject({ code: 16 });
  }
});

test('a caller that names a principal itself is not believed', async () => {
  for (const { client } of targets) {
    for (const header of ['owner', `1.x.${Date.now() + 60_000}.${Buffer.from('a').toString('base64url')}.b3duZXI.`]) {
      const metadata = metadataOf(undefined);
      metadata.set('taskmaster-routed', '1');
      metadata.set('taskmaster-identity', header);
      const { path, requestSerialize } = TaskMasterServiceService.updateTasks;
      const error = await new Promise<ServiceError | null>((resolve) => {
        client.makeUnaryRequest(path, asIs, asIs, requestSerialize(update), metadata, (failure) => resolve(failure));
      });
      expect(error && reasonIn(error)).toBe('UNAUTHENTICATED');
    }
  }
});

test.each(Object.keys(CREDENTIALS))(
  'every method needs the same over HTTP, with the credential: %s',
  async (credential) => {
    expect(overHttp.length).toBeGreaterThan(30);
    for (const { name, http } of targets) {
      for (const method of overHttp) {
        const found = await httpOutcome(http, method, CREDENTIALS[credential]);
        const need = needOf(method) ?? 'open';
        expect(`${name} ${method.path}: ${found}`).toBe(`${name} ${method.path}: ${expected(need, credential)}`);
      }
    }
  },
);

test('pages show nothing to callers without a credential', async () => {
  const reply = await fetch(`http://127.0.0.1:${node.httpPort}/api/queues`);
  expect(await reply.text()).not.toContain('mail');
});

test('a revoked token is refused soon on open connections, and waiting leases of it end', async () => {
  const authorization = 'Bearer tm_revoked';
  const waits = targets.map(({ client }) => {
    const request = TaskMasterServiceService.leaseTasks.requestSerialize(
      aLease({ queues: ['shop#empty'], waitMs: 60_000 }),
    );
    const { path } = TaskMasterServiceService.leaseTasks;
    return new Promise<string>((resolve) => {
      client.makeUnaryRequest(path, asIs, asIs, request, metadataOf(authorization), (error) =>
        resolve(error === null ? 'served' : reasonIn(error)),
      );
    });
  });
  const overHttpToo = targets.map(({ http }) => {
    const { leaseTasks } = TaskMasterServiceService;
    return httpOutcome(http, leaseTasks as never, authorization, aLease({ queues: ['shop#empty'], waitMs: 20_000 }));
  });
  for (const { client, services } of targets) {
    for (const method of methodsOf(services).filter((one) => needOf(one) === 'right')) {
      expect(`${method.path}: ${await outcome(client, method, authorization)}`).toBe(`${method.path}: served`);
    }
  }
  writeFileSync(accessFile, rules(['tm_owner']));
  const revoked = performance.now();
  expect(await Promise.all([...waits, ...overHttpToo])).toEqual(Array(4).fill('UNAUTHENTICATED'));
  console.log(`waiting leases ended ${(performance.now() - revoked).toFixed(0)} ms after the token was revoked`);
  for (const { name, client, services } of targets) {
    for (const method of methodsOf(services)) {
      const need = needOf(method) ?? 'open';
      await eventually(async () =>
        expect(`${name} ${method.path}: ${await outcome(client, method, authorization)}`).toBe(
          `${name} ${method.path}: ${expected(need, 'wrong')}`,
        ),
      );
    }
  }
  const { client, services } = targets[0] ?? { client: undefined, services: [] };
  const [method] = methodsOf(services);
  if (client === undefined || method === undefined) throw new TypeError('no target');
  expect(await outcome(client, method, 'Bearer tm_owner')).toBe('served');
});
