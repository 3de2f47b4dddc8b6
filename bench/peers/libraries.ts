import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/*
 * The client libraries of the peers are not dependencies of the workspace, because builds and tests do not need them. A manifest
 * and a lockfile beside this file pin them. The first comparison installs them there.
 */

const here = fileURLToPath(import.meta.url);
/** The folder of their manifest: beside the source of this file, not beside the built file. */
const home = extname(here) === '.ts' ? dirname(here) : join(dirname(here), '..', '..', 'peers');
const require = createRequire(join(home, 'package.json'));
const LOCKFILE = 'pnpm-lock.yaml';
const stamp = join(home, 'node_modules', '.installed');

/** The client libraries could not be installed. */
export class CannotInstallError extends Error {
  override readonly name = 'CannotInstallError';
}

/**
 * Installs the libraries of the lockfile if they are missing. The output goes to standard error. Throws `CannotInstallError`.
 */
export async function installLibraries(onInstall: () => void): Promise<void> {
  const lock = readFileSync(join(home, LOCKFILE));
  const wanted = createHash('sha256').update(lock).digest('hex');
  if (installed() === wanted) return;
  onInstall();
  const { installedBy } = require('./package.json') as { readonly installedBy: string };
  // No library needs its install scripts, and without them nothing is compiled.
  const install = ['install', '--ignore-workspace', '--ignore-scripts', '--frozen-lockfile', '--reporter=append-only'];
  const npx = spawn('npx', ['-y', installedBy, ...install], { cwd: home, stdio: ['ignore', 2, 2] });
  const [code] = (await once(npx, 'exit').catch((cause: unknown) => {
    throw new CannotInstallError('npx cannot be run', { cause });
  })) as [number | null];
  if (code !== 0)
    throw new CannotInstallError(`${installedBy} ended with ${code} in ${home}: is a registry within reach?`);
  writeFileSync(stamp, wanted);
}

/** Loads a library by name. The workspace has no types of it: the caller declares the parts that it uses. */
export async function loadLibrary<T>(name: string): Promise<T> {
  return (await import(pathToFileURL(require.resolve(name)).href)) as T;
}

/** Name and version of a library, which the manifest pins exactly. */
export function libraryVersion(name: string): string {
  const { dependencies } = require('./package.json') as { readonly dependencies: Readonly<Record<string, string>> };
  return `${name} ${dependencies[name] ?? '?'}`;
}

function installed(): string {
  try {
    return readFileSync(stamp, 'utf8');
  } catch {
    return '';
  }
}
