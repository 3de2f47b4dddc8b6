import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '@taskmaster/postgres/testing';
import mysql from 'mysql2/promise';
import { afterAll, beforeAll, describe } from 'vitest';
import { root } from '../support/paths.ts';

const run = promisify(execFile);
const SERVER = ['/usr/sbin/mariadbd', '/usr/local/sbin/mariadbd', '/opt/homebrew/bin/mariadbd'].find(existsSync);
const INSTALL = ['/usr/bin/mariadb-install-db', '/opt/homebrew/bin/mariadb-install-db'].find(existsSync);

/** Why there is no server for tests on this machine; undefined if there is one. */
const noMariadb = SERVER === undefined || INSTALL === undefined ? 'MariaDB is not installed' : undefined;

/** The files of a new server: a copy takes a fraction of the time of an installation. */
const CACHE = join(root, 'node_modules', '.cache', 'mariadb');

const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/** A server of MariaDB in a temporary directory, on a free port of 127.0.0.1, with a user `root` without a password. */
async function startMariadb(): Promise<AsyncDisposable & { readonly url: string }> {
  if (SERVER === undefined || INSTALL === undefined) throw new Error(noMariadb);
  const dir = await mkdtemp(join(tmpdir(), 'taskmaster-mariadb-'));
  const data = join(dir, 'data');
  const { stdout } = await run(SERVER, ['--version']);
  const made = join(CACHE, stdout.trim().replace(/[^\w.]+/g, '-'));
  if (!existsSync(made)) {
    await mkdir(CACHE, { recursive: true });
    const fresh = await mkdtemp(join(CACHE, 'new-'));
    const options = ['--auth-root-authentication-method=normal', '--skip-test-db', '--innodb-log-file-size=4M'];
    await run(INSTALL, ['--no-defaults', `--datadir=${join(fresh, 'data')}`, `--user=${userName()}`, ...options]);
    await rename(join(fresh, 'data'), made);
    await rm(fresh, { recursive: true });
  }
  await run('cp', ['-Rp', made, data]);
  const port = await freePort();
  const child = spawn(
    SERVER,
    [
      '--no-defaults',
      `--datadir=${data}`,
      `--port=${port}`,
      '--bind-address=127.0.0.1',
      `--socket=${join(dir, 's')}`,
      `--user=${userName()}`,
      '--innodb-flush-log-at-trx-commit=0',
      '--innodb-buffer-pool-size=16M',
      '--innodb-log-file-size=4M',
      '--skip-name-resolve',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  alive.add(child);
  let said = '';
  child.stderr.on('data', (text: Buffer) => {
    said = (said + text.toString()).slice(-4000);
  });
  const url = `mysql://root@127.0.0.1:${port}/outbox`;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the server ended: ${said}`);
    try {
      const connection = await mysql.createConnection({ host: '127.0.0.1', port, user: 'root' });
      await connection.query('CREATE DATABASE outbox');
      await connection.end();
      break;
    } catch (error) {
      // It does not listen yet.
      if (!(error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED')) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      alive.delete(child);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const userName = (): string => (process.getuid?.() === 0 ? 'root' : (process.env.USER ?? 'mysql'));

/** As `describeOnPostgres`, for MariaDB. */
export function describeOnMariadb(title: string, tests: (url: () => string) => void): void {
  const whole = noMariadb === undefined ? title : `${title}: ${noMariadb}`;
  describe.skipIf(noMariadb !== undefined)(whole, () => {
    let server: Awaited<ReturnType<typeof startMariadb>> | undefined;
    beforeAll(async () => {
      server = await startMariadb();
    });
    afterAll(async () => {
      await server?.[Symbol.asyncDispose]();
    });
    tests(() => {
      if (server === undefined) throw new Error('the server has not started');
      return server.url;
    });
  });
}
