import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { networkProblem, TestNetwork } from '../support/network.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { type Relay, relayTo } from '../support/relay.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { programArgs } from './programs.ts';
import { verifyLoad } from './verify-load.ts';

const NAMES = ['a', 'b', 'c'] as const;
const PARTITIONS = 16;
const [GRPC, HTTP, GOSSIP] = [7400, 7401, 7402];
/** Long enough for gossip to declare a node dead that is cut off. */
const CUT_MS = 6_000;
/** Timeout of a call. */
const CALLER_MS = 3_000;
/** Outcomes of a call that does not reach the holder. */
const NOT_SERVED = /^(DEADLINE_EXCEEDED|HOLDER_UNREACHABLE|OUTCOME_UNKNOWN)$/;
const BOTH_WAYS = [
  ['a', 'b'],
  ['b', 'a'],
] as const;

const problem = networkProblem();

describe.skipIf(problem !== undefined)(
  `a cluster whose network is cut${problem ? ` (skipped: it ${problem})` : ''}`,
  {
    timeout: 120_000,
  },
  () => {
    let opened: AsyncDisposableStack;
    let network: TestNetwork;
    let dir: TemporaryDirectory;
    let nodes: Map<string, RunningNode>;
    let relays: Map<string, Relay>;
    let client: TaskMasterClient;
    let loads = 0;

    /** Each node has its own machine, and the users have another one. */
    beforeAll(async () => {
      opened = new AsyncDisposableStack();
      network = opened.use(new TestNetwork());
      dir = opened.use(await temporaryDirectory());
      const addresses = new Map(NAMES.map((name) => [name, network.addHost(name)]));
      network.addHost('user');
      nodes = new Map();
      for (const name of NAMES) {
        const place = nodes.size === 0 ? '--bootstrap' : `--join=${addresses.get('a')}:${GRPC}`;
        const flags = [`--engine-partitions=${PARTITIONS}`, `--gossip-port=${GOSSIP}`, '--insecure'];
        const node = await startNode({
          dir: join(dir.path, name),
          grpcPort: GRPC,
          behind: network.on(name),
          flags: [...flags, `--name=${name}`, `--host=${addresses.get(name)}`, `--http-port=${HTTP}`, place],
        });
        nodes.set(name, opened.use(node));
      }
      const socketOf = (name: string): string => join(dir.path, `${name}.sock`);
      const routes = NAMES.map((name) => `${socketOf(name)}=${addresses.get(name)}:${GRPC}`);
      const [command = '', ...args] = [...network.on('user'), process.execPath, ...programArgs('relay.ts', ...routes)];
      const relay = opened.use(await startProcess(command, args));
      for await (const _ready of relay.lines()) break;
      relays = new Map();
      for (const name of NAMES) relays.set(name, opened.use(await relayTo(socketOf(name))));
      client = opened.use(await connect(endpoints()));
      await settled();
    }, 60_000);
    afterAll(() => opened.disposeAsync());

    const endpoints = (): string[] => [...relays.values()].map(({ endpoint }) => endpoint);

    /** New groups for each load: tasks that a failed load has left must not be in its history. */
    function newGroups(): string[] {
      const load = ++loads;
      return Array.from({ length: 8 }, (_, number) => `load ${load}, group ${number}`);
    }

    async function settled(): Promise<void> {
      await eventually(async () => {
        const { members } = await client.cluster.members();
        expect(members.map(({ name, alive }) => [name, alive])).toEqual(NAMES.map((name) => [name, true]));
        for (const node of members) if (node.role === 'node') expect(node.partitionsHeld).toBe(node.partitionsWanted);
      });
    }

    /** By partition: the nodes that say they serve it. Each node is asked directly, because they may not reach each other. */
    async function holders(): Promise<Map<number, string[]>> {
      const found = new Map<number, string[]>();
      for (const [name, { endpoint }] of relays) {
        await using direct = await connect(endpoint);
        const { partitions } = await direct.cluster.partitions();
        for (const { id, holder, state } of partitions) {
          if (holder?.name === name && state !== 'unreachable') found.set(id, [...(found.get(id) ?? []), name]);
        }
      }
      return found;
    }

    /** Enqueues through a node for a group of another one. Resolves with the outcome and the duration. */
    async function enqueue(holding: ReadonlyMap<number, readonly string[]>, through: string, holder: string) {
      // Many groups, so that every node holds some.
      const group = Array.from({ length: 1_000 }, (_, number) => `told-${number}`).find((name) =>
        holding.get(partitionOf(name, PARTITIONS))?.includes(holder),
      );
      if (group === undefined) throw new Error(`node ${holder} holds no partition`);
      const endpoint = relays.get(through)?.endpoint ?? '';
      await using direct = await connect({ endpoints: endpoint, timeout: CALLER_MS, retry: { maxAttempts: 1 } });
      const began = performance.now();
      const outcome = await direct
        .queue(`${group}#told`)
        .enqueue('x')
        .then(
          () => 'done',
          ({ reason }) => String(reason),
        );
      return { outcome, ms: performance.now() - began };
    }

    test.each([
      [
        'wholly',
        [
          ['a', 'b'],
          ['a', 'c'],
          ['b', 'a'],
          ['c', 'a'],
        ],
      ],
      [
        'in one direction',
        [
          ['a', 'b'],
          ['a', 'c'],
        ],
      ],
      [
        'between two of three',
        [
          ['b', 'c'],
          ['c', 'b'],
        ],
      ],
    ] as const)(
      '%s: each partition keeps its one holder, nothing is lost, and the cluster recovers within 5 s',
      async (_how, cuts) => {
        const groups = newGroups();
        const load = await MixedLoad.start({ endpoints: endpoints(), seed: 1, groups, pauseMs: 1_000 });
        const before = await holders();
        expect([...before.values()].map(({ length }) => length)).toEqual(Array.from({ length: PARTITIONS }, () => 1));
        for (const [from, to] of cuts) network.cut(from, to);
        await delay(CUT_MS);
        // The network is cut: no call gets through.
        const through = await Promise.all(cuts.map(([from, to]) => enqueue(before, from, to)));
        for (const { outcome } of through) expect(outcome).toMatch(NOT_SERVED);
        expect(await holders()).toEqual(before);
        const acknowledged = load.acknowledged;
        for (const [from, to] of cuts) network.heal(from, to);
        const healedAt = performance.now();
        await settled();
        const healedMs = performance.now() - healedAt;
        await eventually(() => expect(load.acknowledged).toBeGreaterThan(acknowledged + 100), { withinMs: 20_000 });
        await load.stop();
        const { summary, problem: violation } = await verifyLoad(client, load.history);
        console.log(`cut off for ${CUT_MS} ms, recovered after ${healedMs.toFixed(0)} ms: ${summary}`);
        expect(violation).toBe('');
        expect(healedMs).toBeLessThan(5_000);
      },
    );

    test('for calls only, while gossip sees all nodes: no partition moves, callers get errors in time, and it recovers', async () => {
      const groups = newGroups();
      const load = await MixedLoad.start({ endpoints: endpoints(), seed: 1, groups, pauseMs: 1_000 });
      const before = await holders();
      for (const [from, to] of BOTH_WAYS) network.cutTcp(from, to);
      const cutAt = performance.now();
      for (const [through, holder] of BOTH_WAYS) {
        const { outcome, ms } = await enqueue(before, through, holder);
        expect(outcome).toMatch(NOT_SERVED);
        expect(ms).toBeLessThan(CALLER_MS + 1_000);
        // A node serves its own groups, and node c, which reaches both, serves all.
        expect(await enqueue(before, holder, holder)).toMatchObject({ outcome: 'done' });
        expect(await enqueue(before, 'c', holder)).toMatchObject({ outcome: 'done' });
      }
      await delay(Math.max(0, CUT_MS - (performance.now() - cutAt)));
      for (const name of NAMES) {
        await using direct = await connect(relays.get(name)?.endpoint ?? '');
        expect((await direct.cluster.members()).members.map(({ alive }) => alive)).toEqual([true, true, true]);
      }
      expect(await holders()).toEqual(before);
      for (const [from, to] of BOTH_WAYS) network.healTcp(from, to);
      const healedAt = performance.now();
      for (const [through, holder] of BOTH_WAYS) {
        await eventually(async () => expect(await enqueue(before, through, holder)).toMatchObject({ outcome: 'done' }));
      }
      const healedMs = performance.now() - healedAt;
      await settled();
      expect(await holders()).toEqual(before);
      await load.stop();
      const { summary, problem: violation } = await verifyLoad(client, load.history);
      const cutMs = healedAt - cutAt;
      console.log(`without calls for ${cutMs.toFixed(0)} ms, recovered after ${healedMs.toFixed(0)} ms: ${summary}`);
      expect(violation).toBe('');
      expect(healedMs).toBeLessThan(10_000);
    });
  },
);
