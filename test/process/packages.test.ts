import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { type Running, runProcess, startProcess } from '../support/processes/child-process.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../support/temporary-directory.ts';
import { environment, findNpm, install, installTool, runInstalled, runtime } from './packages/npm.ts';
import {
  archivesFor,
  bytesIn,
  installedText,
  oldestIn,
  type Packed,
  packAll,
  publishedSources,
} from './packages/packed.ts';

const MIB = 2 ** 20;
/** Maximum size of each packed package, in KiB. A package that exceeds it probably contains files by mistake. */
const BUDGET_KIB: Readonly<Record<string, number>> = {
  '@taskmaster/backup': 100,
  '@taskmaster/cli': 195,
  '@taskmaster/client': 235,
  '@taskmaster/console': 150,
  '@taskmaster/engine': 380,
  '@taskmaster/node': 200,
  '@taskmaster/outbox': 40,
  '@taskmaster/postgres': 60,
  '@taskmaster/proto': 280,
  '@taskmaster/proxy': 100,
  '@taskmaster/server': 290,
};

/** The pages of the console. */
const PAGES = /^dist\/ui\/(index\.html|assets\/[\w-]+\.(js|css|svg))$/;

const npm = await findNpm();
const cli = npm.kind === 'ready' ? npm.cli : '';
const skipped = npm.kind === 'missing' ? ` (skipped: ${npm.reason})` : '';

let directory: TemporaryDirectory;
let packed: readonly Packed[] = [];

beforeAll(async () => {
  directory = await temporaryDirectory();
  packed = await packAll(directory.path);
}, 120_000);

afterAll(async () => {
  await directory[Symbol.asyncDispose]();
});

describe('each packed package', () => {
  test('has its compiled sources, and nothing of tests', async () => {
    expect(packed.map(({ name }) => name)).toEqual(Object.keys(BUDGET_KIB));
    for (const one of packed) {
      const compiled = (await publishedSources(one)).flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]);
      const bundled = one.name === '@taskmaster/server' ? ['dist/bundled/swim.cjs'] : [];
      const pages = one.name === '@taskmaster/console' ? one.files.filter((file) => PAGES.test(file)) : [];
      const inDist = one.files.filter((file) => file.startsWith('dist/'));
      expect(inDist, one.name).toEqual([...compiled, ...bundled, ...pages].toSorted());
    }
  });

  test('has a licence, a README, and all files that it needs', () => {
    const more: Readonly<Record<string, RegExp>> = {
      '@taskmaster/proto':
        /^(descriptor\.binpb|(externalscaler|taskmaster\/v1|google\/rpc|grpc\/health\/v1)\/\w+\.proto)$/,
      '@taskmaster/server': /^THIRD-PARTY-NOTICES$/,
      '@taskmaster/console': /^THIRD-PARTY-NOTICES$/,
    };
    for (const { name, files } of packed) {
      const others = files.filter((file) => !file.startsWith('dist/'));
      expect(others, name).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
      const rest = others.filter((file) => !['LICENSE', 'README.md', 'package.json'].includes(file));
      expect(
        rest.filter((file) => !more[name]?.test(file)),
        name,
      ).toEqual([]);
      expect(rest.length > 0, name).toBe(name in more);
    }
  });

  test('is within its budget', () => {
    const over = packed.filter(({ name, bytes }) => bytes > (BUDGET_KIB[name] ?? 0) * 1024);
    expect(over.map(({ name, bytes }) => `${name}: ${Math.ceil(bytes / 1024)} KiB`)).toEqual([]);
  });

  test('needs the other packages in its own version', () => {
    for (const { version, dependencies } of packed) {
      const ours = Object.entries(dependencies).filter(([name]) => name.startsWith('@taskmaster/'));
      expect(ours.filter(([, range]) => range !== version)).toEqual([]);
    }
  });

  test('of the client needs nothing of the command line', () => {
    const client = packed.find(({ name }) => name === '@taskmaster/client');
    const needed = Object.keys(client?.dependencies ?? {}).toSorted();
    expect(needed).toEqual(['@grpc/grpc-js', '@opentelemetry/api', '@standard-schema/spec', '@taskmaster/proto']);
  });

  test('satisfies publint and attw', { timeout: 120_000 }, async () => {
    const script = join(import.meta.dirname, 'packages', 'lint-archives.ts');
    const { code, stdout, stderr } = await runProcess(process.execPath, [
      script,
      ...packed.map(({ archive }) => archive),
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual(packed.map(({ archive }) => ({ archive, messages: [], problems: [] })));
  });
});

describe.skipIf(npm.kind === 'missing')(`packages installed with npm${skipped}`, () => {
  /** A project with packages, and the oldest Node that they support. */
  interface Project {
    readonly path: string;
    readonly node: string;
  }
  let client: Project;
  let commands: Project;
  let node: Project;

  beforeAll(async () => {
    const project = async (name: string, packages: readonly string[]): Promise<Project> => {
      const range = packed.find((one) => one.name === `@taskmaster/${name}`)?.node ?? '';
      const oldest = await runtime(oldestIn(range));
      const path = join(directory.path, name);
      await install(path, oldest, cli, packages);
      return { path, node: oldest };
    };
    client = await project('client', archivesFor('@taskmaster/client', packed));
    commands = await project('cli', archivesFor('@taskmaster/cli', packed));
    node = await project('node', [...new Set(packed.map(({ archive }) => archive))]);
  }, 300_000);

  /** Type checks a program, and runs it. Returns what it prints. */
  async function runProgram({ path, node: runs }: Project, text: string, ...args: readonly string[]): Promise<string> {
    await writeFile(join(path, 'program.ts'), text);
    const options = { module: 'nodenext', target: 'es2024', lib: ['es2024', 'esnext.disposable'], strict: true };
    const types = { types: ['node'], skipLibCheck: false, outDir: 'out', rootDir: '.' };
    await writeFile(
      join(path, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...options, ...types }, files: ['program.ts'] }),
    );
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const checked = await runProcess(process.execPath, [tsc, '-p', path], { cwd: path });
    expect(checked).toMatchObject({ code: 0, stdout: '' });
    const env = environment(runs);
    const ended = await runProcess(runs, [join(path, 'out', 'program.js'), ...args], { cwd: path, env });
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    return ended.stdout;
  }

  /** All packages of a project, each as `name@version`. */
  async function installedIn({ path }: Project): Promise<string[]> {
    const lock: { readonly packages: Readonly<Record<string, { readonly version: string }>> } = JSON.parse(
      await installedText(path, '.package-lock.json'),
    );
    return Object.entries(lock.packages).map(
      ([folder, { version }]) => `${folder.split('node_modules/').at(-1)}@${version}`,
    );
  }

  /** Starts an installed program with free ports. Resolves with the address of its gRPC when it serves. */
  async function serve(program: string, flags: readonly string[]): Promise<{ running: Running; endpoint: string }> {
    const file = join(node.path, 'node_modules', '.bin', program);
    const args = ['--json', '--grpc-port=0', '--http-port=0', '--gossip-port=0', ...flags];
    const running = await startProcess(file, args, { cwd: node.path, env: environment(node.node) });
    for await (const line of running.lines()) return { running, endpoint: JSON.parse(line).grpc };
    throw new Error(`${program} ended: ${(await running.ended).stderr}`);
  }

  test('contain only files that they use', async () => {
    expect(await bytesIn(join(client.path, 'node_modules'))).toBeLessThan(15 * MIB);
    expect(await bytesIn(join(commands.path, 'node_modules'))).toBeLessThan(18 * MIB);
    expect(await bytesIn(join(node.path, 'node_modules'))).toBeLessThan(120 * MIB);
    const names = (await installedIn(node)).map((one) => one.replace(/(?<=.)@.*/, ''));
    expect(names).toContain('@nxtedition/rocksdb');
    for (const replaced of ['swim', 'msgpack', 'msgpackr', 'farmhash']) expect(names).not.toContain(replaced);
  });

  test('of the client are none of the command line', async () => {
    const { name, version, dependencies = {} } = packed.find((one) => one.name === '@taskmaster/cli') ?? {};
    const wanted = [...Object.entries(dependencies), [name, version]].map((one) => one.join('@'));
    const both = (await installedIn(client)).filter((one) => wanted.includes(one));
    expect(both.map((one) => one.replace(/(?<=.)@.*/, ''))).toEqual([
      '@grpc/grpc-js',
      '@taskmaster/client',
      '@taskmaster/proto',
    ]);
  });

  test('serve, enqueue, lease and complete', { timeout: 120_000 }, async () => {
    const first = await serve('taskmaster-node', ['--name=a', '--bootstrap', '--data-dir=data']);
    await using _node = first.running;
    const { running, endpoint } = await serve('taskmaster-proxy', [`--join=${first.endpoint}`]);
    await using _proxy = running;

    const told = await runProgram(client, USES_A_WORKER, endpoint);
    expect(told).toBe('worked for ada\n');

    const taskmaster = (...args: readonly string[]) =>
      runInstalled(commands.path, commands.node, 'taskmaster', [...args, '--endpoint', endpoint]);
    expect(await taskmaster('enqueue', 'mail', '{"to":"bob"}', '--pid', 'one')).toMatchObject({ code: 0, stderr: '' });
    const leased = await taskmaster('lease', 'mail', '--json');
    const token: unknown = JSON.parse(leased.stdout).leaseToken;
    const completed = await taskmaster('complete', 'mail', 'one', '--lease-token', String(token));
    expect(completed).toMatchObject({ code: 0, stderr: '' });
    expect((await taskmaster('lease', 'mail')).stdout).not.toContain('one');
  });

  test('work in jest, with the thread that renews leases', { timeout: 120_000 }, async () => {
    const tool = join(directory.path, 'jest');
    await installTool(tool, JEST);
    const { path, node: oldest } = client;
    await writeFile(join(path, 'worker.test.mjs'), TESTS_A_WORKER);
    const { running, endpoint } = await serve('taskmaster-node', ['--name=a', '--bootstrap', '--data-dir=jest']);
    await using _node = running;
    const args = ['--experimental-vm-modules', join(tool, 'node_modules', 'jest', 'bin', 'jest.js'), '--rootDir', path];
    const env = { ...environment(oldest), ENDPOINT: endpoint };
    const { code, stderr } = await runProcess(oldest, args, { cwd: path, env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('1 passed') });
    expect(stderr).not.toContain('TaskMasterWarning');
  });

  test('run a node for development where the node is installed, and say otherwise what is missing', async () => {
    const args = ['dev', '--json', '--endpoint', '127.0.0.1:0'];
    const file = join(node.path, 'node_modules', '.bin', 'taskmaster');
    await using running = await startProcess(file, args, { cwd: node.path, env: environment(node.node) });
    for await (const line of running.lines()) {
      const { console: page } = JSON.parse(line);
      expect((await fetch(page)).status).toBe(200);
      running.process.kill('SIGINT');
      break;
    }
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' });
    const alone = await runInstalled(commands.path, node.node, 'taskmaster', args);
    expect(alone).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('npm install --save-dev @taskmaster/node'),
    });
    const old = await runInstalled(commands.path, commands.node, 'taskmaster', args);
    expect(old).toMatchObject({ code: 1, stderr: expect.stringContaining('a node needs Node 24 or newer') });
  });

  test('run an embedded queue', { timeout: 60_000 }, async () => {
    expect(await runProgram(node, EMBEDS, join(directory.path, 'jobs'))).toBe('first\n');
  });
});

const USES_A_WORKER = `
import { connect, type LeasedTask } from '@taskmaster/client';

interface Mail {
  readonly to: string;
}

await using client = await connect(process.argv[2] ?? '');
const mail = client.queue<Mail>('mail');
await mail.enqueue({ to: 'ada' });
const worked = Promise.withResolvers<string>();
await using worker = client.worker(mail, async (task: LeasedTask<Mail>) => worked.resolve(task.data.to));
worker.start();
const to: string = await worked.promise;
console.log(\`worked for \${to}\`);
// @ts-expect-error The types of tasks are those of the queue.
void (() => mail.enqueue({ from: 'ada' }));
`;

const JEST = 'jest@30.5.2';

/** jest runs tests in a realm of its own, where errors of Node.js are no `Error`. */
const TESTS_A_WORKER = `
import { readFileSync } from 'node:fs';
import { connect } from '@taskmaster/client';

test('a handler that fails', async () => {
  const client = await connect(process.env.ENDPOINT);
  const queue = client.queue('tests');
  await queue.enqueue('a', { pid: 'a' });
  const { promise: failed, resolve } = Promise.withResolvers();
  const handler = async (task) => {
    const renewed = task.leaseUntil.getTime() + 500;
    while (task.leaseUntil.getTime() < renewed && !task.signal.aborted) await new Promise((wake) => setTimeout(wake, 10));
    readFileSync('/nowhere');
  };
  const worker = client.worker(queue, handler, { leaseDuration: '3s', backoff: () => '1m', onAttemptFailed: resolve });
  worker.start();
  await failed;
  await worker.stop();
  const [{ failures }] = await queue.get(['a']);
  expect(failures[0].error.message).toBe("Error: ENOENT: no such file or directory, open '/nowhere'");
  await client.close();
}, 60_000);
`;

const EMBEDS = `
import { openEmbedded } from '@taskmaster/node';

await using client = await openEmbedded({ dir: process.argv[2] ?? '', store: { reserveBytes: 2 ** 20 } });
const jobs = client.queue<string>('jobs');
await jobs.enqueue('first');
const [job] = await jobs.lease();
console.log(job?.data);
await job?.complete();
`;
