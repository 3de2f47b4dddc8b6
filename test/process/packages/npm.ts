import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { root } from '../../support/paths.ts';
import { type Ended, runProcess } from '../../support/processes/child-process.ts';

/** What installing a package takes, or why it cannot be had here. */
export type Npm =
  | { readonly kind: 'missing'; readonly reason: string }
  | {
      readonly kind: 'ready';
      /** The program of npm, which any Node can run. */
      readonly cli: string;
    };

/** Finds npm, and asks its registry for a sign of life. */
export async function findNpm(): Promise<Npm> {
  const paths = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'npm'));
  const npm = paths.find((path) => existsSync(path));
  const cli = npm === undefined ? '' : realpathSync(npm);
  if (!cli.endsWith('npm-cli.js')) return { kind: 'missing', reason: 'no npm' };
  const ping = ['ping', '--fetch-retries=1', '--fetch-timeout=10000'];
  const { code } = await runProcess(process.execPath, [cli, ...ping], { env: environment() });
  return code === 0 ? { kind: 'ready', cli } : { kind: 'missing', reason: 'no registry of npm is reachable' };
}

/**
 * The environment of a user: nothing of the test runner, but the configuration of npm. `node`: the Node that is first on the
 * PATH.
 */
export function environment(node?: string): NodeJS.ProcessEnv {
  const mine = /^(TASKMASTER_|VITEST|NODE_(OPTIONS|COMPILE_CACHE)$|npm_(?!config_))/;
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !mine.test(name)));
  return node === undefined ? env : { ...env, PATH: `${dirname(node)}${delimiter}${env.PATH}` };
}

/** The path of a Node of this version. It is installed once and stays in `node_modules/.cache`. */
export async function runtime(version: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const directory = join(root, 'node_modules', '.cache', 'runtimes', version);
  // pnpm writes it last.
  if (!existsSync(join(directory, 'pnpm-lock.yaml'))) await installTool(directory, `${name}@${version}`);
  return join(directory, 'node_modules', name, 'bin', 'node');
}

/**
 * Installs what a test uses and does not check, without the scripts of packages. The pnpm of the workspace takes a sixth of the
 * processor time of npm.
 */
export async function installTool(directory: string, name: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'package.json'), JSON.stringify({ private: true }));
  const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const args = ['-y', config.pnpm, 'add', '--ignore-scripts', '--prefer-offline', '--ignore-workspace', name];
  const { code, stdout, stderr } = await runProcess('npx', args, { cwd: directory, env: environment() });
  if (code !== 0) throw new Error(`pnpm could not install ${name}:\n${stdout}${stderr}`);
}

/**
 * Installs packages in an empty project, without the scripts of packages. Rejects if one of them does not support this version
 * of Node.
 */
export async function install(
  directory: string,
  node: string,
  cli: string,
  packages: readonly string[],
): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  const flags = ['--ignore-scripts', '--engine-strict', '--prefer-offline', '--no-audit', '--no-fund'];
  // A download that stalls begins again soon: npm waits for five minutes by default.
  const args = [cli, 'install', ...flags, '--fetch-timeout=20000', ...packages];
  const { code, stderr } = await runProcess(node, args, { cwd: directory, env: environment(node) });
  if (code !== 0) throw new Error(`npm could not install ${packages.join(', ')}:\n${stderr}`);
}

/** Runs a program that packages have installed in a project. */
export function runInstalled(
  directory: string,
  node: string,
  program: string,
  args: readonly string[],
): Promise<Ended> {
  const file = join(directory, 'node_modules', '.bin', program);
  return runProcess(file, args, { cwd: directory, env: environment(node) });
}
