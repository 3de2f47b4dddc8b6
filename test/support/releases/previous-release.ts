import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DATA_FORMAT } from '@taskmaster/proto';
import { root } from '../paths.ts';
import { runProcess } from '../processes/child-process.ts';

const FORMATS = 'packages/proto/src/data-formats.ts';
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

const git = (...args: string[]): string => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout.trim();

/** The last commit that writes the data format before the present one. Empty in a clone without that part of the history. */
function previousCommit(): string {
  const [added] = git('log', `-Sformat: ${DATA_FORMAT},`, '--reverse', '--format=%H', '--', FORMATS).split('\n');
  return added ? git('rev-parse', '--quiet', '--verify', `${added}^`) : '';
}

/** Why the previous release cannot be built here; undefined if it can. */
export function whyNoPreviousRelease(): string | undefined {
  const isKnown = previousCommit() !== '';
  return isKnown
    ? undefined
    : 'the commit before the present data format is not here: it takes a clone with its history';
}

/** Builds the previous release, once for each clone. */
export async function previousRelease(): Promise<Release> {
  const commit = previousCommit();
  const dir = join(CACHE, commit);
  if (!existsSync(dir)) await build(commit, dir);
  const packages = join(dir, 'packages');
  const client = pathToFileURL(join(packages, 'client', 'dist', 'index.js')).href;
  return {
    nodeCli: join(packages, 'node', 'dist', 'node-cli.js'),
    proxyCli: join(packages, 'proxy', 'dist', 'cli.js'),
    client: (await import(/* @vite-ignore */ client)) as Release['client'],
  };
}

async function build(commit: string, dir: string): Promise<void> {
  const draft = `${dir}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  try {
    // A worktree would stay registered in the clone after a test run that was killed.
    await run('git', ['archive', '--format=tar', `--output=${join(draft, 'release.tar')}`, commit], root);
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
