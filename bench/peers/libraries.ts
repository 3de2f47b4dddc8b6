import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/*
 * The client libraries of the peers are no dependencies of the workspace: nobody who builds or tests it needs them. They
 * are named, pinned and locked beside this file, and installed there the first time somebody asks for the comparison.
 */

const here = fileURLToPath(import.meta.url);
/** Where their manifest is: beside the source of this file, not beside what the build makes of it. */
const home = extname(here) === '.ts' ? dirname(here) : join(dirname(here), '..', '..', 'peers');
const require = createRequire(join(home, 'package.json'));
const stamp = join(home, 'node_modules', '.installed');

/** The client libraries could not be installed. */
export class CannotInstall extends Error {
  override readonly name = 'CannotInstall';
}

/**
 * Installs what the lockfile says, unless that is there already. What npm says goes to standard error.
 *
 * @throws CannotInstall
 */
export async function installLibraries(onInstall: () => void): Promise<void> {
  const wanted = createHash('sha256')
    .update(readFileSync(join(home, 'package-lock.json')))
    .digest('hex');
  if (installed() === wanted) return;
  onInstall();
  const npm = spawn('npm', ['ci', '--loglevel=error'], { cwd: home, stdio: ['ignore', 2, 2] });
  const [code] = (await once(npm, 'exit').catch((cause: unknown) => {
    throw new CannotInstall('npm cannot be run', { cause });
  })) as [number | null];
  if (code !== 0) throw new CannotInstall(`npm ci in ${home} ended with ${code}: is there a registry within reach?`);
  writeFileSync(stamp, wanted);
}

/**
 * A library by its name. The workspace has no types of it: the caller says what it uses.
 */
export async function loadLibrary<T>(name: string): Promise<T> {
  return (await import(pathToFileURL(require.resolve(name)).href)) as T;
}

/** Name and version, as the lockfile has them. */
export function libraryVersion(name: string): string {
  const { packages } = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version?: string }>>;
  };
  return `${name} ${packages[`node_modules/${name}`]?.version ?? '?'}`;
}

function installed(): string {
  try {
    return readFileSync(stamp, 'utf8');
  } catch {
    return '';
  }
}
