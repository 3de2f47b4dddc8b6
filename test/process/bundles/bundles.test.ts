import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect } from '@taskmaster/client';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../../support/paths.ts';
import { runProcess } from '../../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../../support/processes/start-node.ts';

const here = dirname(fileURLToPath(import.meta.url));
const app = join(here, 'worker-app.js');
/** The program of the thread, as users of bundlers name it. */
const RENEWER = '@taskmaster/client/renewer-thread';
const WITHOUT_A_THREAD = 'TASKMASTER_NO_RENEWAL_THREAD';

let node: RunningNode;
/** Below the root of the workspace, so that bundlers find the client there. */
let directory: string;
let rolledUp: Promise<Record<'esm' | 'cjs', string>>;

beforeAll(async () => {
  const cache = join(root, 'node_modules', '.cache');
  await mkdir(cache, { recursive: true });
  directory = await mkdtemp(join(cache, 'bundles-'));
  rolledUp = withRollup();
  node = await startNode();
});

afterAll(async () => {
  await node[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

interface Run {
  /** What Node.js runs, behind its own flags. */
  readonly program: readonly string[];
  /** Whether the handler blocks the event loop for longer than its lease. */
  readonly how: 'block' | 'wait';
  readonly renewalThread?: string;
}

/** Enqueues a task and runs the program until it has handled the task. Returns what it has printed. */
async function handleOne(queue: string, { program, how, renewalThread }: Run) {
  await using client = await connect(node.endpoint);
  const tasks = client.queue(queue);
  await tasks.enqueue('task', { retry: { maxAttempts: 2 } });
  const args = [...program, node.endpoint, queue, how, ...(renewalThread === undefined ? [] : [renewalThread])];
  const { code, stdout, stderr } = await runProcess(process.execPath, args, { env: { PATH: process.env.PATH } });
  return { code, said: stdout.trim().split('\n'), stderr, stats: await tasks.stats() };
}

const HANDLED = {
  code: 0,
  said: ['began attempt 1', 'still leased: true', 'completed'],
  stats: { available: 0, leased: 0, delayed: 0, completed: 1 },
};

const newFolder = (): Promise<string> => mkdtemp(join(directory, 'bundle-'));

const extensionOf = { esm: '.mjs', cjs: '.cjs' } as const;

/** What bundles of ES modules need that contain CommonJS. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** Entries of a bundle that has the thread. */
const entries = { app, 'renewer-thread': RENEWER };

/** Bundles the program and the thread. Returns the folder. */
async function withEsbuild(format: 'esm' | 'cjs', entryPoints: Record<string, string> = entries): Promise<string> {
  const outdir = await newFolder();
  await build({
    entryPoints,
    outdir,
    nodePaths: [join(root, 'node_modules')],
    bundle: true,
    platform: 'node',
    format,
    outExtension: { '.js': extensionOf[format] },
    ...(format === 'esm' ? { banner: { js: REQUIRE } } : {}),
    logLevel: 'error',
  });
  return outdir;
}

/** Bundles both formats in one run, because that takes seconds. Resolves with the folder of each. */
async function withRollup(): Promise<Record<'esm' | 'cjs', string>> {
  const folder = await newFolder();
  const cli = join(dirname(createRequire(import.meta.url).resolve('rollup/package.json')), 'dist', 'bin', 'rollup');
  const args = [cli, '--config', join(here, 'rollup.config.js'), `--configTo=${folder}`, '--silent'];
  expect(await runProcess(process.execPath, args, { cwd: here })).toMatchObject({ code: 0 });
  return { esm: join(folder, 'esm'), cjs: join(folder, 'cjs') };
}

describe.concurrent('a bundled worker', { timeout: 120_000 }, () => {
  test.each([
    ['esbuild', 'esm', withEsbuild],
    ['esbuild', 'cjs', withEsbuild],
    ['rollup', 'esm', async (format: 'esm' | 'cjs') => (await rolledUp)[format]],
    ['rollup', 'cjs', async (format: 'esm' | 'cjs') => (await rolledUp)[format]],
  ] as const)('by %s to %s', async (bundler, format, bundle) => {
    const folder = await bundle(format);
    const program = [join(folder, `app${extensionOf[format]}`)];
    const queue = `${bundler} ${format}`;
    const { stderr, ...handled } = await handleOne(queue, { program, how: 'block' });
    expect(handled, 'it keeps its lease while its handler blocks').toMatchObject(HANDLED);
    expect(stderr).toBe('');

    await rm(join(folder, `renewer-thread${extensionOf[format]}`));
    const { stderr: warning, ...alone } = await handleOne(`${queue} alone`, { program, how: 'wait' });
    expect(alone, 'it renews on the main thread if the bundle lacks the other one').toMatchObject(HANDLED);
    expect(warning.split(WITHOUT_A_THREAD), 'it warns once').toHaveLength(2);
  });

  test('has the thread where it says so', async () => {
    const folder = await withEsbuild('cjs', { app, 'threads/leases': RENEWER });
    const program = [join(folder, 'app.cjs')];
    const renewalThread = join(folder, 'threads', 'leases.cjs');
    const { stderr, ...handled } = await handleOne('elsewhere', { program, how: 'block', renewalThread });
    expect(handled).toMatchObject(HANDLED);
    expect(stderr).toBe('');
  });

  test.each(['esm', 'cjs'] as const)('by esbuild to %s has the thread of its handler', async (format) => {
    const folder = await withEsbuild(format, {
      app: join(here, 'thread-app.js'),
      'thread-handler': join(here, 'thread-handler.js'),
      'renewer-thread': RENEWER,
      'handler-thread': '@taskmaster/client/handler-thread',
    });
    await using client = await connect(node.endpoint);
    const tasks = client.queue(`threads ${format}`);
    const { pid } = await tasks.enqueue('a task', { retry: { maxAttempts: 1 } });
    const program = join(folder, `app${extensionOf[format]}`);
    const { code, stdout, stderr } = await runProcess(process.execPath, [program, node.endpoint, tasks.name]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'completed\n', stderr: '' });
    expect(await tasks.waitFor(pid)).toBe('a task in a thread');
  });

  test('that wants no thread is not warned', async () => {
    const program = [join(await withEsbuild('cjs', { app }), 'app.cjs')];
    const { stderr, ...handled } = await handleOne('unwanted', { program, how: 'wait', renewalThread: 'false' });
    expect(handled).toMatchObject(HANDLED);
    expect(stderr).toBe('');
  });
});

describe.concurrent('a worker that is not bundled', { timeout: 120_000 }, () => {
  test('has the thread if CommonJS requires the client', async () => {
    const client = createRequire(import.meta.url).resolve('@taskmaster/client/package.json');
    const main = join(dirname(client), 'dist', 'index.js');
    const text = (await readFile(app, 'utf8')).replace(
      /^import .*$/m,
      `const { connect } = require(${JSON.stringify(main)});`,
    );
    const file = join(await newFolder(), 'app.cjs');
    await writeFile(file, text);
    const { stderr, ...handled } = await handleOne('required', { program: [file], how: 'block' });
    expect(handled).toMatchObject(HANDLED);
    expect(stderr).toBe('');
  });

  test('renews on the main thread if Node.js may not start threads', async () => {
    const file = join(await newFolder(), 'app.mjs');
    await copyFile(app, file);
    const program = ['--permission', '--allow-fs-read=*', file];
    const { stderr, ...handled } = await handleOne('permission', { program, how: 'wait' });
    expect(handled).toMatchObject(HANDLED);
    expect(stderr.split(WITHOUT_A_THREAD)).toHaveLength(2);
  });
});
