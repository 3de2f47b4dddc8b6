import { readFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { clientCli, root } from '../../support/paths.ts';
import { type Ended, type Running, runProcess } from '../../support/processes/child-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compose } from '../compose-file.ts';
import { imageConfig, programNames } from '../dockerfile.ts';
import { whyNoBaseImage } from './base-image.ts';
import { buildImage, IMAGE, imageSize, removeImage } from './build.ts';
import { ComposeCluster, whyNoCompose } from './compose.ts';
import { Podman, whyNoContainers } from './podman.ts';

const MB = 1e6;
const { version } = JSON.parse(readFileSync(join(root, 'packages/node/package.json'), 'utf8')) as { version: string };
const image = imageConfig();

const podman = await Podman.start();
const problem = whyNoContainers() ?? (await whyNoBaseImage(podman));
const composeProblem = problem ?? whyNoCompose();
const skipped = (reason: string | undefined): string => (reason === undefined ? '' : ` (skipped: ${reason})`);

beforeAll(async () => {
  if (problem !== undefined) return;
  const begun = performance.now();
  await buildImage(podman);
  console.log(`the build took ${((performance.now() - begun) / 1000).toFixed(0)} s`);
});

afterAll(async () => {
  if (problem === undefined) await removeImage(podman);
  await podman[Symbol.asyncDispose]();
});

/** The ready line of a program that was started with `--json`. */
async function ready(running: Running): Promise<object> {
  for await (const line of running.lines()) return JSON.parse(line) as object;
  throw new Error(`it ended: ${(await running.ended).stderr}`);
}

const succeeded = ({ code, stdout, stderr }: Ended): string => {
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return stdout;
};

/** The lines on standard error that are no log. */
const linesOf = ({ stderr }: Ended): string[] =>
  stderr
    .trim()
    .split('\n')
    .filter((line) => !line.startsWith('{'));

/** A program that ends with 0 if a health endpoint answers with 200. */
const asks = (port: number, path: string): string[] => [
  'node',
  '-e',
  `fetch('http://127.0.0.1:${port}${path}').then((r) => process.exit(r.ok ? 0 : 1))`,
];

describe.skipIf(problem !== undefined)(`the image${skipped(problem)}`, () => {
  test('adds less than 75 MB to its base', async () => {
    const size = await imageSize(podman);
    const figures = Object.entries(size).map(([name, bytes]) => `${name} ${(bytes / MB).toFixed(1)} MB`);
    console.log(`the image: ${figures.join(', ')}`);
    expect(size.ownUnpacked).toBeLessThan(75 * MB);
    expect(size.ownCompressed).toBeLessThan(20 * MB);
  });

  test.each(programNames)('has %s', async (program) => {
    expect(succeeded(await podman.runContainer(IMAGE, [program, '--version'])).trim()).toBe(version);
    expect(succeeded(await podman.runContainer(IMAGE, [program, '--help']))).toContain(`Usage: ${program}`);
    const unknown = await podman.runContainer(IMAGE, [program, 'frobnicate']);
    expect(unknown).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('frobnicate') });
  });

  test('refuses a program that it does not have, and names it', async () => {
    const unknown = await podman.runContainer(IMAGE, ['taskmasterd']);
    expect(unknown).toMatchObject({ code: 127, stderr: expect.stringContaining('"taskmasterd"') });
  });

  test('has what backups to S3 need', async () => {
    const { code, stderr } = await podman.runContainer(IMAGE, ['taskmaster', 'backup', 'verify', 's3://bucket/backup']);
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining('Region is missing') });
  });

  test('keeps the licences of RocksDB', async () => {
    const find = [
      'find',
      '/opt/taskmaster/node_modules/@nxtedition/rocksdb',
      '-name',
      'LICENSE.*',
      '-o',
      '-name',
      'COPYING',
    ];
    const found = succeeded(await podman.runContainer(IMAGE, find));
    for (const name of ['LICENSE.Apache', 'LICENSE.leveldb', 'COPYING']) expect(found).toContain(`/${name}\n`);
  });

  test('serves with a node and a proxy, stops, and goes on with the same volume', { timeout: 180_000 }, async () => {
    const data = `${await podman.volume()}:${image.workingDirectory}`;
    {
      const begun = performance.now();
      const cluster = ['taskmaster-node', '--json', '--name=a', '--bootstrap', '--data-dir=/data/taskmaster'];
      await using node = await podman.startContainer(IMAGE, cluster, { volumes: [data] });
      expect(await ready(node.running)).toMatchObject({ ready: true, pid: 1, dataDir: '/data/taskmaster' });
      console.log(`podman run to ready: ${(performance.now() - begun).toFixed(0)} ms`);
      const ports = ['--grpc-port=7410', '--http-port=7411', '--gossip-port=7412'];
      const joins = ['taskmaster-proxy', '--json', '--join=127.0.0.1:7400', ...ports];
      await using proxy = await podman.startContainer(IMAGE, joins, { besides: node.name });
      await ready(proxy.running);
      for (const path of ['/livez', '/readyz']) {
        succeeded(await node.exec(asks(7401, path)));
        succeeded(await proxy.exec(asks(7411, path)));
      }

      const taskmaster = (...args: readonly string[]) =>
        proxy.exec(['taskmaster', '--endpoint', '127.0.0.1:7410', ...args]);
      succeeded(await taskmaster('enqueue', 'mail', 'first', '--pid', 'a'));
      succeeded(await taskmaster('enqueue', 'mail', 'second', '--pid', 'b'));
      const leased: unknown = JSON.parse(succeeded(await taskmaster('lease', 'mail', '--json')));
      expect(leased).toMatchObject({ pid: 'a', leaseToken: expect.any(Number) });
      const { leaseToken } = leased as { leaseToken: number };
      succeeded(await taskmaster('complete', 'mail', 'a', '--lease-token', String(leaseToken)));

      expect(await proxy.stop()).toMatchObject({ code: 0 });
      expect(await node.stop()).toMatchObject({ code: 0, stderr: expect.stringContaining('"msg":"stopped"') });
    }
    // Without a command, as `docker run` starts it: the directory is the same.
    await using again = await podman.startContainer(IMAGE, [], { volumes: [data] });
    await eventually(async () => succeeded(await again.exec(asks(7401, '/readyz'))));
    const left: unknown = JSON.parse(succeeded(await again.exec(['taskmaster', 'lease', 'mail', '--json'])));
    expect(left).toMatchObject({ pid: 'b' });
    expect(await again.stop()).toMatchObject({ code: 0 });
  });

  test('says in one line that it cannot write to its volume', async () => {
    await using foreign = await temporaryDirectory();
    await chmod(foreign.path, 0o755);
    const own = await podman.volume();
    const volumes: readonly (readonly [volumes: string[], problem: string])[] = [
      [[], 'EROFS'],
      [[`${own}:/data:ro`], 'EROFS'],
      [[`${foreign.path}:/data`], 'EACCES'],
    ];
    for (const [mounted, code] of volumes) {
      const ended = await podman.runContainer(IMAGE, [], { volumes: mounted });
      expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining(code) });
      expect(linesOf(ended)).toEqual([expect.stringMatching(/^taskmaster-node: .*\/data\/taskmaster/)]);
    }
  });
});

describe.skipIf(composeProblem !== undefined)(`the compose file${skipped(composeProblem)}`, () => {
  let cluster: ComposeCluster;

  beforeAll(async () => {
    cluster = await ComposeCluster.start(podman);
  });
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
  });

  /** Runs a command of this machine against a proxy. */
  async function taskmaster(proxy: string, ...args: readonly string[]): Promise<string> {
    const endpoint = `127.0.0.1:${await cluster.portOf(proxy, 7400)}`;
    return succeeded(await runProcess(process.execPath, [clientCli, '--endpoint', endpoint, ...args]));
  }

  const nodes = Object.keys(compose.services).filter((name) => name.startsWith('node-'));

  async function allServe(): Promise<void> {
    await eventually(async () => expect((await cluster.checkHealth('node-0')).code).toBe(0), { withinMs: 120_000 });
    await eventually(async () => {
      const members = await taskmaster('proxy-0', 'members');
      for (const name of nodes) expect(members).toMatch(new RegExp(`^${name} +active +yes`, 'm'));
    });
    for (const name of nodes) await eventually(async () => succeeded(await cluster.checkHealth(name)));
  }

  test('starts a cluster that serves through both proxies', async () => {
    await allServe();
    await taskmaster('proxy-0', 'enqueue', 'mail', 'hello', '--pid', 'a');
    expect(await taskmaster('proxy-1', 'peek', 'mail')).toMatch(/^a /m);
    const page = await fetch(`http://127.0.0.1:${await cluster.portOf('node-0', 7401)}/`);
    expect(page.status).toBe(200);
  });

  test('keeps its tasks when all containers are replaced', async () => {
    const codes = await cluster.stop();
    const allZero = Object.fromEntries(Object.keys(compose.services).map((name) => [name, 0]));
    expect(codes, await cluster.logs()).toEqual(allZero);
    await cluster.down();
    await cluster.up();
    await allServe();
    expect(await taskmaster('proxy-1', 'lease', 'mail')).toContain('hello');
  });
});
