import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@taskmaster/client';
import { noPostgres, PostgresServer } from '@taskmaster/postgres/testing';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { networkProblem, TestNetwork } from '../support/network.ts';
import { startProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { startProxy } from '../support/processes/start-proxy.ts';
import { relayTo } from '../support/relay.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MixedLoad } from './mixed-load.ts';
import { programArgs } from './programs.ts';
import { verifyLoad } from './verify-load.ts';

const SEED = Number(process.env.TASKMASTER_SEED ?? 1);
const NAMES = ['a', 'b', 'c'] as const;
type Name = (typeof NAMES)[number];
const DATABASES = ['primary', 'standby'] as const;
const [GRPC, HTTP, GOSSIP, POSTGRES] = [7400, 7401, 7402, 5432];
const GROUPS = Array.from({ length: 10 }, (_, number) => `load-${number}`);
/** Long enough for the others to take over what a node holds that is cut off. */
const CUT_MS = 7_000;

const problem = noPostgres ?? networkProblem();

describe.skipIf(problem !== undefined)(`machines with one database${problem ? `: ${problem}` : ''}`, () => {
  test('loses nothing when nodes, networks and the machine of the primary are gone', { timeout: 300_000 }, async () => {
    await using opened = new AsyncDisposableStack();
    const network = opened.use(new TestNetwork());
    const dir = opened.use(await temporaryDirectory());
    const addressOf = new Map([...NAMES, ...DATABASES, 'user'].map((name) => [name, network.addHost(name)]));
    const relay = async (host: string, ...routes: readonly string[]): Promise<void> => {
      const [command = '', ...args] = [...network.on(host), process.execPath, ...programArgs('relay.ts', ...routes)];
      const running = opened.use(await startProcess(command, args));
      for await (const _ready of running.lines()) return;
    };

    // The servers are on this machine. Each is reached through a machine of the network.
    await PostgresServer.own(dir.path);
    const primary = opened.use(await PostgresServer.start({ settings: [`unix_socket_directories = '${dir.path}'`] }));
    const standby = opened.use(await primary.startStandby());
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await primary.query('SELECT pg_reload_conf()');
    for (const [name, { port }] of [
      ['primary', primary],
      ['standby', standby],
    ] as const) {
      await relay(name, `${addressOf.get(name)}:${POSTGRES}=${join(dir.path, `.s.PGSQL.${port}`)}`);
    }
    const hosts = DATABASES.map((name) => `${addressOf.get(name)}:${POSTGRES}`);
    const store = `--store=postgres://postgres@${hosts.join(',')}/postgres`;

    const nodes = new Map<Name, RunningNode>();
    const start = async (name: Name): Promise<void> => {
      const others = [...nodes.keys()].filter((other) => other !== name);
      const place =
        others.length === 0 ? '--bootstrap' : `--join=${others.map((other) => `${addressOf.get(other)}:${GRPC}`)}`;
      const own = [`--name=${name}`, `--host=${addressOf.get(name)}`, `--http-port=${HTTP}`, `--gossip-port=${GOSSIP}`];
      const flags = [store, '--engine-partitions=16', '--insecure', ...own, place];
      nodes.set(name, opened.use(await startNode({ grpcPort: GRPC, behind: network.on(name), flags })));
    };
    for (const name of NAMES) await start(name);
    const seeds = NAMES.map((name) => `${addressOf.get(name)}:${GRPC}`);
    const ofProxy = [`--host=${addressOf.get('user')}`, '--insecure', '--router-hold-timeout-ms=6000'];
    const proxy = opened.use(await startProxy(seeds, ofProxy, undefined, network.on('user')));
    const socket = join(dir.path, 'proxy.sock');
    await relay('user', `${socket}=${proxy.endpoint}`);
    const { endpoint } = opened.use(await relayTo(socket));
    await using client = await connect(endpoint);
    const settled = (): Promise<void> =>
      eventually(
        async () => {
          const { members } = await client.cluster.members();
          const those = members.flatMap((member) => (member.role === 'node' ? [member] : []));
          expect(those.map(({ name, alive }) => [name, alive])).toEqual(NAMES.map((name) => [name, true]));
          for (const node of those) expect(node.partitionsHeld).toBe(node.partitionsWanted);
        },
        { withinMs: 60_000 },
      );
    await settled();

    const load = await MixedLoad.start({ endpoints: endpoint, seed: SEED, groups: GROUPS, pauseMs: 1_000 });
    const progress = async (): Promise<void> => {
      const enough = load.acknowledged + 50;
      await eventually(() => expect(load.acknowledged).toBeGreaterThan(enough), { withinMs: 60_000 });
    };
    /** Cuts all packets between a node and these machines. */
    const isolated = async (name: Name, from: readonly string[]): Promise<void> => {
      for (const other of from) {
        network.cut(name, other);
        network.cut(other, name);
      }
      await delay(CUT_MS);
      await progress();
      for (const other of from) {
        network.heal(name, other);
        network.heal(other, name);
      }
      await eventually(() => expect(nodes.get(name)?.process.stderr).toContain('starts anew'), { withinMs: 60_000 });
      await settled();
    };
    const others = (name: Name): Name[] => NAMES.filter((other) => other !== name);

    await progress();
    await nodes.get('a')?.kill();
    await progress();
    await start('a');
    await settled();
    await isolated('b', [...others('b'), ...DATABASES, 'user']);
    await isolated('c', DATABASES);
    await primary.kill();
    await rm(primary.dir, { recursive: true, force: true });
    await standby.query('SELECT pg_promote()');
    await progress();
    await nodes.get('b')?.kill();
    await progress();
    await start('b');
    await settled();
    await progress();
    await load.stop();
    const { summary, problem: violation } = await verifyLoad(client, load.history);
    console.log(`seed ${SEED}: ${summary}`);
    expect(violation).toBe('');
  });
});
