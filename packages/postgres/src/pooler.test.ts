import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Key } from '@taskmaster/engine/domain';
import { Family, StoreFailedError, WriteBatch } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { openPostgresStore } from './open-store.ts';
import { describeOnPostgres, PostgresServer, WITHOUT_FSYNC } from './testing/index.ts';
import { freePort, otherUser } from './testing/postgres-server.ts';

const program = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find((path) => existsSync(path));
const WHY = program === undefined ? ' (PgBouncer is not installed)' : '';

describeOnPostgres('behind PgBouncer', WITHOUT_FSYNC, (server) => {
  let databases = 0;

  /** A store on a database of its own, behind a pooler. */
  async function openBehind(mode: 'session' | 'transaction') {
    const stack = new AsyncDisposableStack();
    try {
      const dir = await mkdtemp(join(tmpdir(), 'taskmaster-bouncer-'));
      stack.defer(() => rm(dir, { recursive: true }));
      const port = await freePort();
      const file = join(dir, 'pgbouncer.ini');
      const database = `d${++databases}`;
      await server().query(`CREATE DATABASE ${database}`);
      const target = `* = host=127.0.0.1 port=${server().port} user=postgres`;
      const settings = [`listen_addr = 127.0.0.1`, `listen_port = ${port}`, 'auth_type = any', 'unix_socket_dir ='];
      await writeFile(file, ['[databases]', target, '[pgbouncer]', ...settings, `pool_mode = ${mode}`].join('\n'));
      for (const path of [dir, file]) await PostgresServer.own(path);
      // Like the server, it does not run as root.
      const child = spawn(program ?? '', [file], { ...otherUser(), cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] });
      stack.defer(() => stop(child));
      await listening(child);
      const url = `postgres://postgres@127.0.0.1:${port}/${database}`;
      const store = stack.use(await openPostgresStore({ url, name: 'node', release: '0.0.0' }));
      const moved = stack.move();
      return { store, [Symbol.asyncDispose]: () => moved.disposeAsync() };
    } catch (error) {
      await stack.disposeAsync();
      throw error;
    }
  }

  const put = (key: string): WriteBatch => {
    const batch = new WriteBatch();
    batch.put(Family.data, key as Key, Buffer.from(key));
    return batch;
  };

  test.skipIf(program === undefined)(`a session of its own serves as a connection to the server${WHY}`, async () => {
    await using pooled = await openBehind('session');
    const keys = Array.from({ length: 20 }, (_, nth) => `k${nth}` as Key);
    await Promise.all(keys.map((key) => pooled.store.write(put(key), { sync: true })));
    const reads = keys.map((key) => pooled.store.get(Family.data, [key]));
    expect((await Promise.all(reads)).flat()).toEqual(keys.map((key) => Buffer.from(key)));
  });

  test.skipIf(program === undefined)(`sessions that change with each transaction are refused${WHY}`, async () => {
    await using pooled = await openBehind('transaction');
    const { store } = pooled;
    // Reads and writes at once take several sessions of the server.
    const use = async (): Promise<void> => {
      for (let nth = 0; nth < 100; nth++) {
        const read = store.get(Family.data, [`k${nth}` as Key]);
        await Promise.all([store.write(put(`k${nth}`), { sync: true }), read, store.get(Family.log, ['a' as Key])]);
      }
    };
    const error: unknown = await use().catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(StoreFailedError);
    expect((error as Error).message).toContain('PgBouncer: pool_mode = session');
  });
});

async function listening(child: ChildProcess): Promise<void> {
  let said = '';
  for await (const text of child.stderr ?? []) {
    said += String(text);
    if (said.includes('process up')) return;
  }
  throw new Error(`PgBouncer did not start: ${said}`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
