import { keptLog, SeededRandom, VirtualClock } from '@taskmaster/engine/testing';
import type { ExchangeResponse } from '@taskmaster/proto';
import { beforeEach, describe, expect, test } from 'vitest';
import type { PeerHandlers } from '../ports/peer-network.ts';
import { SimGossip } from '../testing/sim-membership.ts';
import { callPeersOver, servePeer } from '../testing/sim-peers.ts';
import { askCluster, Exchanger } from './exchange.ts';
import type { MemberRecord, Members } from './members.ts';
import { releaseOf } from './releases.ts';

const b: MemberRecord = {
  nodeId: 'id-b',
  name: 'b',
  state: 'active',
  version: 1,
  rpcAddress: 'b:1',
  gossipAddress: 'b:2',
  removedBy: '',
};

describe('the answer of a node is taken over', () => {
  const genuine: ExchangeResponse = {
    knowledge: { members: [], holders: [] },
    nodeId: 'id-b',
    clusterId: 'cluster-1',
    partitions: 32,
    nowMs: 0,
    wallMs: 0,
    mayCommit: true,
    release: undefined,
  };
  let answer: ExchangeResponse;
  let learnt: string[];
  let log: ReturnType<typeof keptLog>;

  beforeEach(() => {
    answer = genuine;
    learnt = [];
    log = keptLog();
  });

  const serve = servePeer(() => ({ exchange: async () => answer }) as Partial<PeerHandlers> as PeerHandlers, keptLog());

  function exchanger(contacts: readonly string[] = []) {
    const clock = new VirtualClock();
    const self = {
      nodeId: 'id-a',
      name: 'a',
      role: 'node' as const,
      rpcAddress: 'a:1',
      version: '0',
      stateVersion: 1,
      incarnation: 1,
    };
    const members: Members = new Map([[b.nodeId, b]]);
    const made = new Exchanger({
      membership: new SimGossip().open(self, 'a:2', [], clock),
      clock,
      log,
      contacts,
      clusterId: 'cluster-1',
      from: 'id-a',
      random: new SeededRandom(1),
      call: callPeersOver(({ method, request }) => serve(method, request)),
      members: () => members,
      knowledge: () => ({ members: [], holders: [] }),
      learn: async (_knowledge, from) => void learnt.push(from),
      onBeat: () => {},
    });
    return { clock, made };
  }

  test('if it is the node that was asked', async () => {
    expect(await exchanger().made.hear('id-b')).toMatchObject({ mayCommit: true });
    expect(learnt).toEqual(['id-b']);
  });

  test('but not if another node has its address', async () => {
    answer = { ...genuine, nodeId: 'id-x' };
    expect(await exchanger().made.hear('id-b')).toBeUndefined();
    expect(learnt).toEqual([]);
  });

  test('but not if it belongs to another cluster, which is logged once', async () => {
    answer = { ...genuine, clusterId: 'cluster-2' };
    const { made } = exchanger();
    expect([await made.hear('id-b'), await made.hear('id-b')]).toEqual([undefined, undefined]);
    expect(learnt).toEqual([]);
    expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });

  test('but not while it speaks a newer protocol, which is logged once', async () => {
    answer = { ...genuine, release: { version: '9.0.0', protocolMin: 7, protocolMax: 8 } };
    const { made } = exchanger();
    expect([await made.hear('id-b'), await made.hear('id-b')]).toEqual([undefined, undefined]);
    expect(learnt).toEqual([]);
    expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
    expect(made.incompatibility).toContain('member b: release 9.0.0 speaks versions 7 to 8');
    answer = { ...genuine, release: { version: '9.0.0', protocolMin: 1, protocolMax: 8 } };
    expect(await made.hear('id-b')).toMatchObject({ mayCommit: true });
    expect(made.incompatibility).toBeUndefined();
  });

  test('of any contact that is of this cluster', async () => {
    for (const clusterId of ['cluster-2', 'cluster-1']) {
      answer = { ...genuine, nodeId: 'id-x', clusterId };
      const { made, clock } = exchanger(['x:1']);
      made.start();
      await clock.advance(0);
      made.stop();
      expect(learnt).toEqual(clusterId === 'cluster-1' ? ['id-x'] : []);
    }
  });

  test('but not by a proxy, if it speaks a newer protocol', async () => {
    const call = callPeersOver(({ method, request }) => serve(method, request));
    answer = { ...genuine, release: { version: '9.0.0', protocolMin: 7, protocolMax: 8 } };
    await expect(askCluster(call, ['b:1'], releaseOf('0.0.0'))).rejects.toMatchObject({
      incompatible: expect.stringContaining('b:1: release 9.0.0 speaks versions 7 to 8'),
    });
    answer = genuine;
    expect(await askCluster(call, ['b:1'], releaseOf('0.0.0'))).toMatchObject({ clusterId: 'cluster-1' });
  });
});
