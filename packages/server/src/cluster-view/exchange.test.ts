import type { ExchangeResponse } from '@taskmaster/proto';
import { beforeEach, describe, expect, test } from 'vitest';
import { keptLog } from '../grpc/testing/start-server.ts';
import { SeededRandom } from '../testing/seeded-random.ts';
import { SimGossip } from '../testing/sim-membership.ts';
import { VirtualClock } from '../testing/virtual-clock.ts';
import { Exchanger } from './exchange.ts';
import type { MemberRecord, Members } from './members.ts';

const b: MemberRecord = {
  ...{ nodeId: 'id-b', name: 'b', state: 'active', version: 1 },
  ...{ rpcAddress: 'b:1', gossipAddress: 'b:2', removedBy: '' },
};

describe('what a node answers is taken over', () => {
  const genuine: ExchangeResponse = {
    knowledge: { members: [], holders: [] },
    ...{ nodeId: 'id-b', clusterId: 'cluster-1', partitions: 32, nowMs: 0, mayCommit: true },
  };
  let answer: ExchangeResponse;
  let learnt: string[];
  let log: ReturnType<typeof keptLog>;

  beforeEach(() => {
    answer = genuine;
    learnt = [];
    log = keptLog();
  });

  function exchanger(contacts: readonly string[] = []) {
    const clock = new VirtualClock();
    const self = {
      ...{ nodeId: 'id-a', name: 'a', role: 'node' as const, rpcAddress: 'a:1' },
      ...{ version: '0', stateVersion: 1, incarnation: 1 },
    };
    const members: Members = new Map([[b.nodeId, b]]);
    const made = new Exchanger({
      membership: new SimGossip().open(self, 'a:2', [], clock),
      ...{ clock, log, contacts, clusterId: 'cluster-1', from: 'id-a', random: new SeededRandom(1) },
      call: async () => answer as never,
      members: () => members,
      knowledge: () => ({ members: [], holders: [] }),
      learn: async (_knowledge, from) => void learnt.push(from),
      onBeat: () => {},
    });
    return { clock, made };
  }

  test('where it is the node that was asked', async () => {
    expect(await exchanger().made.hear('id-b')).toMatchObject({ mayCommit: true });
    expect(learnt).toEqual(['id-b']);
  });

  test('not where another one is at its address', async () => {
    answer = { ...genuine, nodeId: 'id-x' };
    expect(await exchanger().made.hear('id-b')).toBeUndefined();
    expect(learnt).toEqual([]);
  });

  test('not where it is of another cluster, which is said once', async () => {
    answer = { ...genuine, clusterId: 'cluster-2' };
    const { made } = exchanger();
    expect([await made.hear('id-b'), await made.hear('id-b')]).toEqual([undefined, undefined]);
    expect(learnt).toEqual([]);
    expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });

  test('of a contact, whoever it is, if it is of this cluster', async () => {
    for (const clusterId of ['cluster-2', 'cluster-1']) {
      answer = { ...genuine, nodeId: 'id-x', clusterId };
      const { made, clock } = exchanger(['x:1']);
      made.start();
      await clock.advance(0);
      made.stop();
      expect(learnt).toEqual(clusterId === 'cluster-1' ? ['id-x'] : []);
    }
  });
});
