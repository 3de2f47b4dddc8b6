import { execFileSync } from 'node:child_process';
import { chmod, chown } from 'node:fs/promises';
import { join } from 'node:path';
import { findCommand, NotInstalledError, versionOf } from '../commands.ts';
import { accepts, freePort, LOOPBACK, type ServerKind, Service } from './server.ts';

const INSTALL = 'apt-get install postgresql';
const command = () => findCommand('postgres', INSTALL);
const initdb = () => findCommand('initdb', INSTALL);

/** The usual settings for speed; all others have their defaults. */
const SETTINGS = {
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  max_connections: '120',
  fsync: 'on',
  synchronous_commit: 'on',
  listen_addresses: LOOPBACK,
};

export const POSTGRES_USER = 'bench';
/** Its first database, which `initdb` creates. */
export const POSTGRES_DATABASE = 'postgres';

/** PostgreSQL, which syncs before a commit is acknowledged. */
export const postgres: ServerKind = {
  find() {
    command();
    initdb();
    unprivileged();
  },
  async start(dir) {
    const port = await freePort();
    const user = unprivileged();
    if (user !== undefined) await chown(dir, user.uid, user.gid);
    await chmod(dir, 0o700);
    const data = join(dir, 'data');
    const options = { ...user, cwd: dir };
    execFileSync(initdb(), ['-D', data, '-A', 'trust', '-U', POSTGRES_USER, '--no-sync'], {
      ...options,
      stdio: 'ignore',
    });
    const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const place = ['-D', data, '-p', String(port), '-c', `unix_socket_directories=${dir}`];
    const service = new Service('postgres', command(), [...place, ...settings], options);
    await service.until(() => accepts(port));
    return {
      endpoint: `${LOOPBACK}:${port}`,
      version: `postgresql ${versionOf(command(), ['--version'], /\) ([\d.]+)/)}`,
      pids: [service.pid],
      // Closes open connections without a crash.
      stop: () => service.stop('SIGINT'),
    };
  },
};

/** The user for PostgreSQL, which refuses to run as root: the user of its package. Undefined: the current user. */
function unprivileged(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number =>
    Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  try {
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    throw new NotInstalledError('the user postgres, as whom root must start it,', INSTALL);
  }
}
