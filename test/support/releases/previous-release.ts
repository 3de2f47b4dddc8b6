import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from '../paths.ts';
import { runProcess } from '../processes/child-process.ts';

/**
 * The last commit that writes the data format before the present one. When a format is added to
 * packages/proto/src/data-formats.ts, replace it by the commit before.
 */
const PREVIOUS_COMMIT = 'c57e44c0699f01ca8db7dae403774322eeb9edc1';
/** The package manager that its lockfile needs. */
const PNPM = 'pnpm@12.21.0';
/** Not in node_modules: Node runs no TypeScript there, and tests run on the sources. */
const CACHE = join(root, '.cache', 'releases');

/** The programs of an earlier release. */
export interface Release {
  /** Command line of a node. */
  readonly nodeCli: string;
  /** Command line of a proxy. */
  readonly proxyCli: string;
  /** The client's module. */
  readonly client: typeof import('@taskmaster/client');
}

const git = (...args: string[]): boolean => spawnSync('git', args, { cwd: root, stdio: 'ignore' }).status === 0;

/** Why the previous release cannot be built here; undefined if it can. */
export function whyNoPreviousRelease(): string | undefined {
  if (existsSync(join(CACHE, PREVIOUS_COMMIT))) return undefined;
  if (git('cat-file', '-e', `${PREVIOUS_COMMIT}^{commit}`)) return undefined;
  return `commit ${PREVIOUS_COMMIT.slice(0, 8)} is not here: it takes a clone with its whole history`;
}

/** Builds the previous release, once for each clone. */
export async function previousRelease(): Promise<Release> {
  const dir = join(CACHE, PREVIOUS_COMMIT);
  if (!existsSync(dir)) await build(dir);
  const packages = join(dir, 'packages');
  const client = pathToFileURL(join(packages, 'client', 'dist', 'index.js')).href;
  return {
    nodeCli: join(packages, 'node', 'dist', 'node-cli.js'),
    proxyCli: join(packages, 'proxy', 'dist', 'cli.js'),
    client: (await import(/* @vite-ignore */ client)) as Release['client'],
  };
}

async function build(dir: string): Promise<void> {
  const draft = `${dir}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  try {
    // A worktree would stay registered in the clone after a test run that was killed.
    await run('git', ['archive', '--format=tar', `--output=${join(draft, 'release.tar')}`, PREVIOUS_COMMIT], root);
    await run('tar', ['-xf', 'release.tar'], draft);
    await run('npx', ['-y', PNPM, 'install', '--frozen-lockfile', '--prefer-offline', nodeVersion()], draft);
    const tsc = join(draft, 'node_modules', '.bin', 'tsc');
    await run(tsc, ['-b', ...['node', 'proxy', 'client'].map((name) => `packages/${name}`)], draft);
    await rename(draft, dir);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Packages are installed for the Node that runs this test. */
const nodeVersion = (): string => `--config.node-version=${process.versions.node}`;

async function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  const { code, stdout, stderr } = await runProcess(command, args, { cwd });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
}
