import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials, Metadata, type MethodDefinition, type ServiceError } from '@grpc/grpc-js';
import { connect } from '@taskmaster/client';
import { ClusterServiceService, hashOfToken, MemberState, PeerServiceService } from '@taskmaster/proto';
import { errorInfoOf } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { PARTITIONS, TestCluster } from '../support/processes/start-cluster.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/* A caller who reaches every port of a cluster with a key and rules, but has neither, cannot take its data away. */

const TASKS = 40;
const OPERATOR = 'tm_operator';
const rules = {
  principals: [
    {
      name: 'operator',
      tokens: [hashOfToken(OPERATOR)],
      rights: [{ groups: ['*'], allow: ['enqueue', 'read'] }, { allow: ['manage-cluster'] }],
    },
    {
      name: 'service',
      tokens: [hashOfToken('tm_service')],
      rights: [{ groups: ['*'], allow: ['enqueue'] }],
    },
  ],
};

/** Resolves with `served`, or with the reason of the refusal. */
function ask(client: Client, method: MethodDefinition<never, never>, request: object, headers: Record<string, string>) {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const serialize = method.requestSerialize as (request: object) => Buffer;
  return new Promise<string>((resolve) => {
    const done = (error: ServiceError | null) => resolve(error === null ? 'served' : errorInfoOf(error).reason);
    client.makeUnaryRequest(method.path, serialize, (bytes) => bytes, request, metadata, done);
  });
}

test('forged calls of members, and management without the right, change nothing', async () => {
  await using directory = await temporaryDirectory();
  const file = (name: string, text: string): string => {
    const path = join(directory.path, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const audit = join(directory.path, 'audit.log');
  const flags = [
    `--cluster-key-file=${file('key', 'a key for this test only')}`,
    `--access-file=${file('access.yaml', JSON.stringify(rules))}`,
  ];
  await using cluster = await TestCluster.start({ nodes: 2, flags: [...flags, `--audit-file=${audit}`] });
  await using proxy = await startProxy(cluster.endpoints, flags);
  await using operator = await connect({ endpoints: cluster.endpoints, token: OPERATOR });
  await operator.queue<number>('jobs').enqueueMany(Array.from({ length: TASKS }, (_, data) => ({ data })));
  const { members } = await operator.cluster.members();

  const attacked = [...cluster.endpoints, proxy.endpoint];
  const results: Record<string, Set<string>> = {};
  for (const endpoint of attacked) {
    using clients = new DisposableStack();
    const attacker = clients.adopt(new Client(endpoint, credentials.createInsecure()), (client) => client.close());
    const note = async (name: string, outcome: Promise<string>): Promise<void> => {
      results[name] ??= new Set();
      results[name].add(await outcome);
    };
    for (const member of members) {
      const { nodeId, name } = member;
      const gone = {
        nodeId,
        name,
        state: MemberState.MEMBER_STATE_LEFT,
        version: Number.MAX_SAFE_INTEGER,
        rpcAddress: '',
        gossipAddress: '',
        removedBy: 'nobody',
      };
      const holders = Array.from({ length: PARTITIONS }, (_, partition) => ({
        partition,
        nodeId: 'nobody',
        epoch: Number.MAX_SAFE_INTEGER,
        queues: 0,
        tasks: 0,
        countedMs: 0,
        durableMark: 0,
      }));
      const knowledge = { members: [gone], holders };
      const exchange = { clusterId: '', from: nodeId, knowledge, release: undefined };
      const peer = PeerServiceService as unknown as Record<string, MethodDefinition<never, never>>;
      const manage = ClusterServiceService as unknown as Record<string, MethodDefinition<never, never>>;
      for (const seal of [{}, { 'taskmaster-seal': 'run.channel.1.AAAA' }] as Record<string, string>[]) {
        const forged = (method: string, request: object): Promise<string> =>
          ask(attacker, peer[method] as MethodDefinition<never, never>, request, seal);
        await note('Exchange', forged('exchange', exchange));
        await note('RemoveMembers', forged('removeMembers', { clusterId: '', nodeId, acceptLoss: true, also: [] }));
        await note('Leave', forged('leave', {}));
      }
      for (const [who, header] of [
        ['nobody', {}],
        ['a service', { authorization: 'Bearer tm_service' }],
      ] as const) {
        const managed = (method: string, request: object): Promise<string> =>
          ask(attacker, manage[method] as MethodDefinition<never, never>, request, header);
        await note(`DrainMember of ${who}`, managed('drainMember', { name }));
        await note(`RemoveMember of ${who}`, managed('removeMember', { name, also: [], acceptLoss: true, waitMs: 0 }));
      }
    }
  }
  const reasons = Object.fromEntries(Object.entries(results).map(([name, found]) => [name, [...found].sort()]));
  expect(reasons).toEqual({
    // A proxy does not have the service of members.
    Exchange: ['', 'WRONG_KEY'],
    RemoveMembers: ['', 'WRONG_KEY'],
    Leave: ['', 'WRONG_KEY'],
    'DrainMember of nobody': ['UNAUTHENTICATED'],
    'RemoveMember of nobody': ['UNAUTHENTICATED'],
    'DrainMember of a service': ['PERMISSION_DENIED'],
    'RemoveMember of a service': ['PERMISSION_DENIED'],
  });
  const after = await operator.cluster.members();
  expect(after.members).toMatchObject(members.map(({ name, role }) => ({ name, role, alive: true })));
  expect((await operator.queue('jobs').stats()).available).toBe(TASKS);
  const lines = readFileSync(audit, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const refused = lines.filter(({ action, result }) => action === 'RemoveMember' && result !== 'OK');
  expect(new Set(refused.map(({ principal }) => principal ?? ''))).toEqual(new Set(['', 'service']));
  expect(refused.every(({ address }) => /^127\.0\.0\.1:\d+$/.test(address))).toBe(true);
});
