import type { JoinRequest, JoinResponse } from '@taskmaster/proto';
import { type MemberRecord, toWireRecord } from '@taskmaster/server/cluster-view';
import { Refusal } from '@taskmaster/server/domain';
import type { CallPeer } from '@taskmaster/server/ports';
import { keptLog, SeededRandom, VirtualClock, VirtualTime } from '@taskmaster/server/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../ports/store.ts';
import { SimDisk } from '../../testing/sim-store.ts';
import { MemberStore } from './member-store.ts';
import { ClusterStartError, type StartingRoleSettings, type StoreContents, takeStartingRole } from './starting-role.ts';

const member = (name: string, change: Partial<MemberRecord> = {}): MemberRecord => ({
  ...{ nodeId: `id-${name}`, name, state: 'active', version: 1 },
  ...{ rpcAddress: `${name}:7400`, gossipAddress: `${name}:7402`, removedBy: '' },
  ...change,
});

describe('where a node stands when it starts', () => {
  let time: VirtualTime;
  let disk: SimDisk;
  let store: Store;
  let asked: JoinRequest[];
  /** What members say of their cluster. */
  let found: { readonly clusterId: string; readonly partitions: number };
  let prepare: () => Promise<void>;
  let contents: StoreContents;
  /** What a member answers; undefined: nobody does. */
  let answer: ((request: JoinRequest) => JoinResponse) | undefined;
  let log: ReturnType<typeof keptLog>;

  beforeEach(async () => {
    time = new VirtualTime();
    disk = new SimDisk({ random: new SeededRandom(1) });
    store = await disk.open();
    asked = [];
    found = { clusterId: 'cluster-1', partitions: 64 };
    prepare = async () => {};
    contents = { hasQueues: false, partitions: undefined };
    log = keptLog();
    answer = () => ({
      clusterId: 'cluster-1',
      partitions: 64,
      knowledge: { members: [toWireRecord(member('first'))], holders: [] },
    });
  });

  const call: CallPeer = (_address, method, request) => {
    if (method === 'exchange') return Promise.resolve({ ...found, nodeId: 'id-first' }) as never;
    asked.push(request as JoinRequest);
    if (!answer) return Promise.reject(new Error('no connection'));
    return Promise.resolve(answer(request as JoinRequest)) as never;
  };

  function start(settings: Partial<StartingRoleSettings> = {}, signal = new AbortController().signal) {
    const deps = {
      ...{ memberStore: new MemberStore(store), call, clock: new VirtualClock({ time }), log, signal },
      ...{ inspect: async () => contents, prepare: () => prepare(), onAsking: () => {} },
    };
    return time.run(
      takeStartingRole(
        { name: '', defaultName: 'host', bootstrap: false, join: [], isFirst: false, ...settings },
        deps,
      ),
      3_600_000,
    );
  }

  async function startedAs(settings: Partial<StartingRoleSettings> = {}) {
    const role = await start(settings);
    if (role.kind !== 'member') throw new Error('the node stands alone');
    return role;
  }

  test('without being told anything it stands alone', async () => {
    expect(await start()).toEqual({ kind: 'alone' });
  });

  test('it begins a cluster with what it has, once', async () => {
    const first = await startedAs({ name: 'a', bootstrap: true });
    expect(first).toMatchObject({ begins: true, identity: { name: 'a', boots: 1 }, partitions: undefined });
    await new MemberStore(store).writeMembers([{ ...member('a'), nodeId: first.identity.nodeId, version: 2 }]);
    const second = await startedAs({ bootstrap: true });
    expect(second.begins).toBe(false);
    expect(second.identity).toEqual({ ...first.identity, boots: 2 });
  });

  test('a cluster whose beginning was cut short is begun again', async () => {
    await startedAs({ bootstrap: true });
    expect((await startedAs()).begins).toBe(true);
  });

  test('it joins a cluster: with its name, in its own words, with what the members know', async () => {
    const role = await startedAs({ name: 'b', join: ['first:7400'] });
    expect(role).toMatchObject({ begins: false, partitions: 64, identity: { clusterId: 'cluster-1', name: 'b' } });
    expect([...role.members.values()].map(({ name, state }) => [name, state])).toEqual([
      ['b', 'joining'],
      ['first', 'active'],
    ]);
    expect(asked).toMatchObject([{ clusterId: '', member: { name: 'b', nodeId: role.identity.nodeId } }]);
  });

  test('is a member from then on, whatever it is told', async () => {
    const { identity } = await startedAs({ join: ['first:7400'] });
    answer = undefined;
    expect((await startedAs({ bootstrap: true })).identity).toEqual({ ...identity, boots: identity.boots + 1 });
  });

  describe('where it is told to join another cluster than its own', () => {
    beforeEach(async () => {
      await startedAs({ name: 'b', join: ['first:7400'] });
      found = { clusterId: 'cluster-2', partitions: 64 };
    });

    test('it does not start, and names both', async () => {
      const told = /member b of cluster cluster-1, but other:7400 is of cluster cluster-2/;
      await expect(start({ join: ['other:7400'] })).rejects.toThrow(told);
      expect(await startedAs()).toMatchObject({ identity: { clusterId: 'cluster-1' } });
    });

    test('it starts all the same where all have one command line: one that lost its disk may have begun anew', async () => {
      const { identity } = await startedAs({ bootstrap: true, join: ['other:7400'] });
      expect(identity).toMatchObject({ clusterId: 'cluster-1' });
      expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
    });
  });

  test('goes on asking until somebody answers, under one id', async () => {
    const willing = answer;
    answer = undefined;
    time.at((time.now() + 90_000) as ReturnType<typeof time.now>, () => {
      answer = willing;
    });
    const { identity } = await startedAs({ join: ['first:7400', 'second:7400'] });
    expect(asked.length).toBeGreaterThan(100);
    expect(new Set(asked.map(({ member: asking }) => asking?.nodeId))).toEqual(new Set([identity.nodeId]));
    // Every half a minute, for people.
    expect(log.lines.filter(({ level }) => level === 'warn')).toHaveLength(3);
  });

  test('keeps its id when it is stopped while it asks', async () => {
    answer = undefined;
    const stop = new AbortController();
    time.at((time.now() + 5_000) as ReturnType<typeof time.now>, () => stop.abort(new Error('told to stop')));
    await expect(start({ join: ['first:7400'] }, stop.signal)).rejects.toThrow('told to stop');
    const [first] = asked;
    answer = () => ({ clusterId: 'cluster-1', partitions: 64, knowledge: undefined });
    expect((await startedAs({ join: ['first:7400'] })).identity.nodeId).toBe(first?.member?.nodeId);
  });

  describe('of several that are started alike', () => {
    const ALIKE = { bootstrap: true, join: ['first:7400', 'second:7400'] };

    test('the first begins a cluster, after it has looked for one', async () => {
      answer = undefined;
      const began = time.now();
      expect((await startedAs({ ...ALIKE, isFirst: true })).begins).toBe(true);
      expect(time.now() - began).toBeGreaterThanOrEqual(5_000);
      expect(asked.length).toBeGreaterThan(2);
    });

    test('the first joins the cluster that is there', async () => {
      const role = await startedAs({ ...ALIKE, isFirst: true });
      expect(role).toMatchObject({ begins: false, identity: { clusterId: 'cluster-1' } });
    });

    test('the others wait for it, and say so', async () => {
      const willing = answer;
      answer = undefined;
      time.at((time.now() + 600_000) as ReturnType<typeof time.now>, () => {
        answer = willing;
      });
      expect(await startedAs(ALIKE)).toMatchObject({ begins: false, identity: { clusterId: 'cluster-1' } });
      const [said] = log.lines;
      expect(said?.details).toMatchObject({ problem: expect.stringContaining('only first:7400 begins a cluster') });
    });

    test('the first stays the member that it was', async () => {
      answer = undefined;
      const before = await startedAs({ ...ALIKE, isFirst: true });
      const again = await startedAs({ ...ALIKE, isFirst: true });
      expect(again.identity).toEqual({ ...before.identity, boots: 2 });
    });

    test('none begins one with what a node had that stood alone', async () => {
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

  test('whoever has no key of the cluster speaks for nobody else', async () => {
    const willing = answer;
    answer = (request) => {
      if (asked.length === 1 || !willing) throw new Refusal('WRONG_KEY', 'not sealed');
      return willing(request);
    };
    expect((await startedAs({ join: ['stranger:7400', 'first:7400'] })).identity.clusterId).toBe('cluster-1');
  });

  test.each(['NAME_IN_USE', 'WRONG_KEY', 'MEMBER_LEFT'] as const)('takes %s for an answer', async (reason) => {
    answer = () => {
      throw new Refusal(reason, 'it says why');
    };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/first:7400 refuses: it says why/);
  });

  test('does not hide the queues of a node that stood alone', async () => {
    contents = { hasQueues: true, partitions: 64 };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/stood alone.*--bootstrap/s);
    expect(asked).toEqual([]);
    expect((await startedAs({ bootstrap: true })).begins).toBe(true);
  });

  test('needs as many partitions as the cluster has', async () => {
    contents = { hasQueues: false, partitions: 1024 };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/1024 partitions, the cluster has 64/);
    expect(asked).toEqual([]);
  });

  test('asks nobody before it has what it needs of its machine: a member that cannot start would be waited for', async () => {
    prepare = () => Promise.reject(new Error('the port is in use'));
    await expect(start({ join: ['first:7400'] })).rejects.toThrow('the port is in use');
    await expect(start({ bootstrap: true })).rejects.toThrow('the port is in use');
    expect(asked).toEqual([]);
    prepare = async () => {};
    expect(await start()).toEqual({ kind: 'alone' });
  });

  test('says what is wrong with each address', async () => {
    const stop = new AbortController();
    answer = undefined;
    time.at((time.now() + 1_000) as ReturnType<typeof time.now>, () => stop.abort(new Error('told to stop')));
    await expect(start({ join: ['first:7400', 'second:7400'] }, stop.signal)).rejects.toThrow('told to stop');
    const problem = 'first:7400: no connection; second:7400: no connection';
    expect(log.lines[0]?.details).toMatchObject({ problem });
  });

  test('says how to come by another name', async () => {
    answer = () => {
      throw new Refusal('NAME_IN_USE', 'another member has it');
    };
    await expect(start({ join: ['first:7400'] })).rejects.toThrow(/NAME_IN_USE.*--name/);
  });

  test("keeps out of another member's directory", async () => {
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

    test('it comes back as a new member of the same name', async () => {
      const before = await leave({});
      const { identity, begins } = await startedAs({ join: ['first:7400'] });
      expect({ begins, name: identity.name }).toEqual({ begins: false, name: 'a' });
      expect(identity.nodeId).not.toBe(before);
    });

    test('it asks as the same new member until it knows that it is one', async () => {
      const before = await leave({});
      asked = [];
      const stopped = new AbortController();
      const willing = answer;
      // Taken in, and ended before the answer came.
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

    test('it does not start by itself', async () => {
      await leave({});
      await expect(start()).rejects.toThrow(/has left the cluster: --join/);
    });

    test('it comes back to no other cluster', async () => {
      await leave({});
      asked = [];
      found = { clusterId: 'cluster-2', partitions: 64 };
      await expect(start({ join: ['first:7400'] })).rejects.toThrow(/of cluster cluster-1, not cluster-2/);
      expect(asked).toEqual([]);
    });

    test('because others gave it up, it stays away', async () => {
      await leave({ removedBy: 'id-first' });
      await expect(start({ join: ['first:7400'] })).rejects.toBeInstanceOf(ClusterStartError);
      await expect(start()).rejects.toThrow(/given up through first/);
    });
  });
});
