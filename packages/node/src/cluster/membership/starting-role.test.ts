import { Refusal } from '@taskmaster/engine/domain';
import type { Store } from '@taskmaster/engine/ports';
import { keptLog, SeededRandom, SimDisk, VirtualClock, VirtualTime } from '@taskmaster/engine/testing';
import { type ClusterKnowledge, JoinRequest, type JoinResponse, type MemberRelease } from '@taskmaster/proto';
import { type MemberRecord, releaseOf, toWireRecord } from '@taskmaster/server/cluster-view';
import type { PeerHandlers } from '@taskmaster/server/ports';
import { callPeersOver, servePeer } from '@taskmaster/server/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import type { RecordedCluster } from './cluster-record.ts';
import { MemberStore } from './member-store.ts';
import { ClusterStartError, type StartingRoleSettings, type StoreContents, takeStartingRole } from './starting-role.ts';

const member = (name: string, change: Partial<MemberRecord> = {}): MemberRecord => ({
  nodeId: `id-${name}`,
  name,
  state: 'active',
  version: 1,
  rpcAddress: `${name}:7400`,
  gossipAddress: `${name}:7402`,
  removedBy: '',
  ...change,
});

describe('the role of a node that starts', () => {
  let time: VirtualTime;
  let disk: SimDisk;
  let store: Store;
  let asked: JoinRequest[];
  /** The cluster of the members that answer. */
  let found: { readonly clusterId: string; readonly partitions: number };
  /** The members that they tell of. */
  let told: ClusterKnowledge | undefined;
  /** The release that they tell. */
  let release: MemberRelease | undefined;
  let prepare: () => Promise<void>;
  let contents: StoreContents;
  /** The answer of a member to a join; undefined: no member answers. */
  let answer: ((request: JoinRequest) => JoinResponse) | undefined;
  let log: ReturnType<typeof keptLog>;
  /** What is recorded outside of the data directory; undefined: there is no record. */
  let record: { recorded: RecordedCluster | undefined; problem?: Error } | undefined;

  beforeEach(async () => {
    time = new VirtualTime();
    disk = new SimDisk({ random: new SeededRandom(1) });
    store = await disk.open();
    asked = [];
    found = { clusterId: 'cluster-1', partitions: 64 };
    told = undefined;
    release = undefined;
    prepare = async () => {};
    contents = { hasQueues: false, partitions: undefined };
    log = keptLog();
    record = undefined;
    answer = () => ({
      clusterId: 'cluster-1',
      partitions: 64,
      knowledge: { members: [toWireRecord(member('first'))], holders: [] },
    });
  });

  const exchange = async () => ({
    ...found,
    nodeId: 'id-first',
    knowledge: told,
    nowMs: 0,
    wallMs: 0,
    mayCommit: true,
    release,
  });
  const join = async (request: JoinRequest): Promise<JoinResponse> => {
    if (!answer) throw new TypeError('no member answers');
    return answer(request);
  };
  const serve = servePeer(() => ({ exchange, join }) as Partial<PeerHandlers> as PeerHandlers, keptLog());
  const call = callPeersOver(async ({ method, request }) => {
    if (method === 'join') asked.push(JoinRequest.decode(request));
    if (method === 'join' && !answer) throw new Error('no connection');
    return serve(method, request);
  });

  async function claim(cluster: RecordedCluster): Promise<RecordedCluster> {
    if (record?.problem) throw record.problem;
    if (record) record.recorded ??= cluster;
    return record?.recorded ?? cluster;
  }

  function start(
    settings: Partial<StartingRoleSettings> = {},
    signal = new AbortController().signal,
    onAsking: (problem: string) => void = () => {},
  ) {
    const deps = {
      release: releaseOf('0.0.0'),
      memberStore: new MemberStore(store),
      call,
      clock: new VirtualClock({ time }),
      log,
      signal,
      record: record && { claim },
      inspect: async () => contents,
      prepare: () => prepare(),
      onAsking,
    };
    return time.run(
      takeStartingRole(
        { name: '', defaultName: 'host', bootstrap: false, join: [], isFirst: false, marks: [], ...settings },
        deps,
      ),
      3_600_000,
    );
  }

  async function startedAs(settings: Partial<StartingRoleSettings> = {}) {
    const role = await start(settings);
    if (role.kind !== 'member') throw new Error('the node runs without a cluster');
    return role;
  }

  test('without settings it runs without a cluster', async () => {
    expect(await start()).toEqual({ kind: 'alone' });
  });

  test('with settings of a member it does not run alone on an empty directory', async () => {
    const marks = ['name', 'cluster.keyFile'];
    contents = { hasQueues: false, partitions: undefined };
    await expect(start({ name: 'b', marks })).rejects.toThrow(
      /directory is empty.*\(name, cluster\.keyFile\): name members with --join, begin a cluster with --bootstrap/,
    );
    expect((await startedAs({ name: 'b', marks, join: ['first:7400'] })).begins).toBe(false);
  });

  test('a stand-alone node that was used before goes on, whatever its settings', async () => {
    contents = { hasQueues: false, partitions: 1024 };
    expect(await start({ name: 'b', marks: ['name'] })).toEqual({ kind: 'alone' });
  });

  test('it begins a cluster with its queues, once', async () => {
    const first = await startedAs({ name: 'a', bootstrap: true });
    expect(first).toMatchObject({ begins: true, identity: { name: 'a' }, partitions: undefined });
    await new MemberStore(store).writeMembers([{ ...member('a'), nodeId: first.identity.nodeId, version: 2 }]);
    const second = await startedAs({ bootstrap: true });
    expect(second.begins).toBe(false);
    expect(second.identity).toEqual({ ...first.identity, startNumber: first.identity.startNumber + 1 });
  });

  test('it begins the cluster again if the first attempt was interrupted', async () => {
    await startedAs({ bootstrap: true });
    expect((await startedAs()).begins).toBe(true);
  });

  test('it joins a cluster with its name and its own record, and learns what the members know', async () => {
    const role = await startedAs({ name: 'b', join: ['first:7400'] });
    expect(role).toMatchObject({ begins: false, partitions: 64, identity: { clusterId: 'cluster-1', name: 'b' } });
    expect([...role.members.values()].map(({ name, state }) => [name, state])).toEqual([
      ['b', 'joining'],
      ['first', 'active'],
    ]);
    expect(asked).toMatchObject([{ clusterId: '', member: { name: 'b', nodeId: role.identity.nodeId } }]);
  });

  test('it joins no cluster whose members speak a newer protocol, and does not ask to join it', async () => {
    release = { version: '9.0.0', protocolMin: 7, protocolMax: 8 };
    const started = start({ name: 'b', join: ['first:7400'] });
    await expect(started).rejects.toBeInstanceOf(ClusterStartError);
    await expect(started).rejects.toThrow('release 9.0.0 speaks versions 7 to 8 of the protocol between members');
    expect(asked).toEqual([]);
  });

  test('it joins a cluster whose members speak a newer protocol, too', async () => {
    release = { version: '9.0.0', protocolMin: 1, protocolMax: 8 };
    expect(await startedAs({ name: 'b', join: ['first:7400'] })).toMatchObject({ begins: false });
    expect(asked).toMatchObject([{ release: { version: '0.0.0', protocolMin: 1 } }]);
  });

  test('the number of its start is larger than before, also with an older copy of its directory', async () => {
    await startedAs({ name: 'a', bootstrap: true });
    await store.close();
    const older = disk.copy();
    store = await disk.open();
    for (let i = 0; i < 3; i++) await startedAs();
    const before = (await startedAs()).identity.startNumber;
    await store.close();
    await time.advance(60_000);
    disk.restore(older);
    store = await disk.open();
    expect((await startedAs()).identity.startNumber).toBeGreaterThan(before);
  });

  test('with a copy of its directory from before others joined, it learns of them before it serves', async () => {
    const { identity } = await startedAs({ name: 'a', bootstrap: true });
    const own = { ...member('a'), nodeId: identity.nodeId };
    await new MemberStore(store).writeMembers([own]);
    found = { ...found, clusterId: identity.clusterId };
    told = { members: [own, member('b')].map(toWireRecord), holders: [] };
    const role = await startedAs({ bootstrap: true, join: ['first:7400'] });
    expect([...role.members.values()].map(({ name }) => name)).toEqual(['a', 'b']);
    expect((await startedAs()).members.size).toBe(2);
  });

  test('it stays a member, whatever its settings say later', async () => {
    const { identity } = await startedAs({ join: ['first:7400'] });
    answer = undefined;
    expect((await startedAs({ bootstrap: true })).identity).toEqual({
      ...identity,
      startNumber: identity.startNumber + 1,
    });
  });

  describe('a member that is told to join another cluster', () => {
    beforeEach(async () => {
      await startedAs({ name: 'b', join: ['first:7400'] });
      found = { clusterId: 'cluster-2', partitions: 64 };
    });

    test('does not start, and names both clusters', async () => {
      const told = /member b of cluster cluster-1, but other:7400 is of cluster cluster-2/;
      await expect(start({ join: ['other:7400'] })).rejects.toThrow(told);
      expect(await startedAs()).toMatchObject({ identity: { clusterId: 'cluster-1' } });
    });

    test('starts nevertheless if all nodes have one command line: one that lost its disk may have begun a second cluster', async () => {
      const { identity } = await startedAs({ bootstrap: true, join: ['other:7400'] });
      expect(identity).toMatchObject({ clusterId: 'cluster-1' });
      expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
    });
  });

  test('it asks until a member answers, always with the same id', async () => {
    const willing = answer;
    answer = undefined;
    time.at((time.now() + 90_000) as ReturnType<typeof time.now>, () => {
      answer = willing;
    });
    const { identity } = await startedAs({ join: ['first:7400', 'second:7400'] });
    expect(asked.length).toBeGreaterThan(100);
    expect(new Set(asked.map(({ member: asking }) => asking?.nodeId))).toEqual(new Set([identity.nodeId]));
    // One warning every half minute.
    expect(log.lines.filter(({ level }) => level === 'warn')).toHaveLength(3);
  });

  test('it keeps its id when it is stopped while it asks', async () => {
    answer = undefined;
    const stop = new AbortController();
    time.at((time.now() + 5_000) as ReturnType<typeof time.now>, () => stop.abort(new Error('told to stop')));
    await expect(start({ join: ['first:7400'] }, stop.signal)).rejects.toThrow('told to stop');
    const [first] = asked;
    answer = () => ({ clusterId: 'cluster-1', partitions: 64, knowledge: undefined });
    expect((await startedAs({ join: ['first:7400'] })).identity.nodeId).toBe(first?.member?.nodeId);
  });

  describe('of several nodes that are started with the same settings', () => {
    const ALIKE = { bootstrap: true, join: ['first:7400', 'second:7400'] };

    test('the first begins a cluster after it has looked for one', async () => {
      answer = undefined;
      const began = time.now();
      expect((await startedAs({ ...ALIKE, isFirst: true })).begins).toBe(true);
      expect(time.now() - began).toBeGreaterThanOrEqual(5_000);
      expect(asked.length).toBeGreaterThan(2);
    });

    test('the first joins an existing cluster', async () => {
      const role = await startedAs({ ...ALIKE, isFirst: true });
      expect(role).toMatchObject({ begins: false, identity: { clusterId: 'cluster-1' } });
    });

    test('the others wait for it and say so', async () => {
      const willing = answer;
      answer = undefined;
      time.at((time.now() + 600_000) as ReturnType<typeof time.now>, () => {
        answer = willing;
      });
      expect(await startedAs(ALIKE)).toMatchObject({ begins: false, identity: { clusterId: 'cluster-1' } });
      const [said] = log.lines;
      expect(said?.details).toMatchObject({ problem: expect.stringContaining('only first:7400 begins a cluster') });
    });

    test('the first remains a member of its cluster', async () => {
      answer = undefined;
      const before = await startedAs({ ...ALIKE, isFirst: true });
      const again = await startedAs({ ...ALIKE, isFirst: true });
      expect(again.identity.nodeId).toBe(before.identity.nodeId);
    });

    test('none begins a cluster with the queues of a stand-alone node', async () => {
      answer = undefined;
      contents = { hasQueues: true, partitions: 64 };
      await expect(start({ ...ALIKE, isFirst: true })).rejects.toThrow(/--bootstrap without --join/);
    });

    test('the first does not begin another one after it has left', async () => {
      const { identity } = await startedAs({ ...ALIKE, isFirst: true, name: 'a' });
      const { nodeId } = identity;
      await new MemberStore(store).writeMembers([member('a', { nodeId, state: 'left', version: 9 })]);
      const willing = answer;
      answer = undefined;
      time.at((time.now() + 60_000) as ReturnType<typeof time.now>, () => {
        answer = willing;
      });
      expect(await startedAs({ ...ALIKE, isFirst: true })).toMatchObject({ identity: { clusterId: 'cluster-1' } });
    });
  });

  test('a refusal by an address without a key of the cluster does not end the start', async () => {
    const willing = answer;
    answer = (request) => {
      if (asked.length === 1 || !willing) throw new Refusal('WRONG_KEY', 'not sealed');
      return willing(request);
    };
    expect((await startedAs({ join: ['stranger:7400', 'first:7400'] })).identity.clusterId).toBe('cluster-1');
  });

  test.each(['NAME_IN_USE', 'WRONG_KEY', 'MEMBER_LEFT'] as const)('it accepts %s as final', async (reason) => {
    answer = () => {
      throw new Refusal(reason, 'it says why');
    };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/first:7400 refuses: it says why/);
  });

  test('it does not hide the queues of a stand-alone node', async () => {
    contents = { hasQueues: true, partitions: 64 };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/stand-alone.*--bootstrap/s);
    expect(asked).toEqual([]);
    expect((await startedAs({ bootstrap: true })).begins).toBe(true);
  });

  test('it must have as many partitions as the cluster', async () => {
    contents = { hasQueues: false, partitions: 1024 };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/1024 partitions, the cluster has 64/);
    expect(asked).toEqual([]);
  });

  test('it takes its ports before it asks: the cluster would wait for a member that cannot start', async () => {
    prepare = () => Promise.reject(new Error('the port is in use'));
    await expect(start({ join: ['first:7400'] })).rejects.toThrow('the port is in use');
    await expect(start({ bootstrap: true })).rejects.toThrow('the port is in use');
    expect(asked).toEqual([]);
    prepare = async () => {};
    expect(await start()).toEqual({ kind: 'alone' });
  });

  test('it says what is wrong with each address', async () => {
    const stop = new AbortController();
    answer = undefined;
    time.at((time.now() + 1_000) as ReturnType<typeof time.now>, () => stop.abort(new Error('told to stop')));
    await expect(start({ join: ['first:7400', 'second:7400'] }, stop.signal)).rejects.toThrow('told to stop');
    const problem = 'first:7400 does not answer: no connection; second:7400 does not answer: no connection';
    expect(log.lines[0]?.details).toMatchObject({ problem });
  });

  test('it says what to do about a name that is in use, after a lost disk, too', async () => {
    answer = () => {
      throw new Refusal('NAME_IN_USE', 'another member has it');
    };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(
      /NAME_IN_USE.*lost its disk.*members remove \S+\).*gives up its tasks.*--name/,
    );
  });

  test("it refuses another member's directory", async () => {
    await startedAs({ name: 'a', bootstrap: true });
    await expect(start({ name: 'b' })).rejects.toThrow(/is that of member a, not of b/);
  });

  describe('after it left', () => {
    async function leave(change: Partial<MemberRecord>): Promise<string> {
      const { identity } = await startedAs({ name: 'a', join: ['first:7400'] });
      const { nodeId } = identity;
      await new MemberStore(store).writeMembers([member('a', { nodeId, state: 'left', version: 9, ...change })]);
      return nodeId;
    }

    test('it joins again as a new member with the same name', async () => {
      const before = await leave({});
      const { identity, begins } = await startedAs({ join: ['first:7400'] });
      expect({ begins, name: identity.name }).toEqual({ begins: false, name: 'a' });
      expect(identity.nodeId).not.toBe(before);
    });

    test('it asks with the same new id until it knows that it was admitted', async () => {
      const before = await leave({});
      asked = [];
      const stopped = new AbortController();
      const willing = answer;
      // It is admitted, but ends before the answer arrives.
      answer = () => {
        stopped.abort(new Error('ended'));
        throw new Error('no connection');
      };
      await expect(start({ join: ['first:7400'] }, stopped.signal)).rejects.toThrow('ended');
      await expect(start()).rejects.toThrow(/member a has left the cluster: --join/);
      answer = willing;
      const { identity } = await startedAs({ join: ['first:7400'] });
      const ids = asked.map(({ member: asking }) => asking?.nodeId);
      expect(ids).toEqual([identity.nodeId, identity.nodeId]);
      expect(ids).not.toContain(before);
      expect(await startedAs()).toMatchObject({ identity: { nodeId: identity.nodeId }, begins: false });
    });

    test('it does not start without --join', async () => {
      await leave({});
      await expect(start()).rejects.toThrow(/has left the cluster: --join/);
    });

    test('it joins no other cluster', async () => {
      await leave({});
      asked = [];
      found = { clusterId: 'cluster-2', partitions: 64 };
      await expect(start({ join: ['first:7400'] })).rejects.toThrow(/of cluster cluster-1, not cluster-2/);
      expect(asked).toEqual([]);
    });

    test('by removal, it does not start', async () => {
      await leave({ removedBy: 'id-first' });
      await expect(start({ join: ['first:7400'] })).rejects.toBeInstanceOf(ClusterStartError);
      await expect(start()).rejects.toThrow(/removed through first/);
    });
  });

  describe('with a record of the cluster', () => {
    const first = { name: 'a', bootstrap: true, join: ['a:7400'], isFirst: true };

    test('the first node records the cluster that it begins', async () => {
      answer = undefined;
      record = { recorded: undefined };
      const { identity } = await startedAs(first);
      expect(record.recorded).toEqual({ clusterId: identity.clusterId, firstNode: identity.nodeId });
    });

    test('an interrupted start begins the recorded cluster', async () => {
      answer = undefined;
      record = { recorded: undefined };
      const { identity } = await startedAs(first);
      await new MemberStore(store).writeIdentity({ ...identity, clusterId: '' });
      expect(await startedAs(first)).toMatchObject({ begins: true, identity: { clusterId: identity.clusterId } });
    });

    test('a first node that has lost its disk begins no second cluster, and joins when a member answers', async () => {
      record = { recorded: { clusterId: 'cluster-1', firstNode: 'id-lost' } };
      const joined = answer;
      answer = undefined;
      const problems: string[] = [];
      const role = await start(first, undefined, (problem) => {
        problems.push(problem);
        if (problem.includes('cluster cluster-1 is recorded for these nodes')) answer = joined;
      });
      expect(role).toMatchObject({ begins: false, identity: { clusterId: 'cluster-1' } });
      expect(problems.length).toBeGreaterThan(1);
    });

    test('without an address to ask, it does not start', async () => {
      record = { recorded: { clusterId: 'cluster-1', firstNode: 'id-lost' } };
      await expect(start({ name: 'a', bootstrap: true })).rejects.toThrow('is recorded for these nodes');
    });

    test('no cluster begins while it cannot be recorded', async () => {
      record = { recorded: undefined, problem: new Error('the API server does not answer') };
      await expect(start({ name: 'a', bootstrap: true })).rejects.toThrow('the API server does not answer');
    });

    test('a directory of another cluster is refused', async () => {
      await startedAs({ name: 'a', bootstrap: true });
      record = { recorded: { clusterId: 'cluster-9', firstNode: 'id-first' } };
      await expect(start({ bootstrap: true })).rejects.toThrow('cluster cluster-9 is recorded for these nodes');
    });

    test('a member restarts while the record cannot be read', async () => {
      const before = await startedAs({ name: 'a', bootstrap: true });
      record = { recorded: undefined, problem: new Error('the API server does not answer') };
      expect((await startedAs({ bootstrap: true })).identity.clusterId).toBe(before.identity.clusterId);
    });
  });
});
