import { execFileSync } from 'node:child_process';
import { accessSync, constants, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Directories in which distributions install servers. */
const USUAL_PLACES = ['/usr/lib/rabbitmq/bin', '/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin'];
const POSTGRES_VERSIONS = '/usr/lib/postgresql';

/** A necessary command is not installed. */
export class NotInstalledError extends Error {
  override readonly name = 'NotInstalledError';
  readonly install: string;

  constructor(command: string, install: string) {
    super(`${command} is not installed`);
    this.install = install;
  }
}

/** The path of a command. Throws `NotInstalledError`. */
export function findCommand(name: string, install: string): string {
  const path = findIn([...USUAL_PLACES.slice(0, 1), ...postgresPlaces(), ...pathPlaces(), ...USUAL_PLACES], name);
  if (path === undefined) throw new NotInstalledError(name, install);
  return path;
}

/** The path of the first executable file with this name in these directories. */
export function findIn(places: readonly string[], name: string): string | undefined {
  return places.map((place) => join(place, name)).find(isExecutable);
}

/** The version that a command reports, or `?`. */
export function versionOf(command: string, args: readonly string[], pattern: RegExp): string {
  const said = execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return pattern.exec(said)?.[1] ?? '?';
}

function pathPlaces(): string[] {
  return (process.env.PATH ?? '').split(delimiter).filter((place) => place !== '');
}

/** Directories of PostgreSQL versions, newest first. The PATH often has only some of its commands. */
function postgresPlaces(): string[] {
  try {
    const versions = readdirSync(POSTGRES_VERSIONS).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(POSTGRES_VERSIONS, version, 'bin'));
  } catch {
    return []; // not Debian
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
