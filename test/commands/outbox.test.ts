import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { runCli } from '@taskmaster/cli/testing';
import { Outbox, sqliteQuery, sqliteQuerySync } from '@taskmaster/outbox';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** These commands need no node. */
const run = (...args: readonly string[]) => runCli('127.0.0.1:1', ['outbox', ...args]);

test('tables are made, shown and worked with', async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, 'shop.db');
  const database = `sqlite:${path}`;
  expect(await run('migrate', '--database', database, '--prefix', 'shop')).toEqual({
    code: 0,
    stdout: 'the tables have version 1\n',
    stderr: '',
  });
  using opened = new DatabaseSync(path);
  const outbox = new Outbox({ dialect: 'sqlite', prefix: 'shop' });
  outbox.enqueueSync(sqliteQuerySync(opened), 'q', 1);
  opened.exec(
    `INSERT INTO shop_outbox_refused SELECT id, queue, task, bytes, created_ms, 5, 'TASK_EXISTS', 'it is there' FROM shop_outbox;` +
      'DELETE FROM shop_outbox',
  );
  const shown = await run('show', '--database', database, '--prefix', 'shop');
  expect(shown.stdout).toBe('0 tasks waiting, the oldest for 0ms\n1 task refused\n1  q  TASK_EXISTS  it is there\n');
  const retried = await run('retry', '1', '--database', database, '--prefix', 'shop', '--json');
  expect(retried).toEqual({ code: 0, stdout: '{"pending":1}\n', stderr: '' });
  expect(await outbox.refused(sqliteQuery(opened))).toEqual([]);
});

test('the printed schema makes the tables', async () => {
  const { stdout } = await run('schema', '--dialect', 'sqlite');
  using opened = new DatabaseSync(':memory:');
  opened.exec(stdout);
  new Outbox({ dialect: 'sqlite' }).enqueueSync(sqliteQuerySync(opened), 'q', 1);
  for (const dialect of ['postgres', 'mysql'])
    expect((await run('schema', '--dialect', dialect, '--prefix', 'a.b')).stdout).toContain(
      'TABLE IF NOT EXISTS a.b_outbox (',
    );
});

test.each([
  ['another database', ['show', '--database', 'oracle:x'], 2, /write postgres:/],
  ['a prefix that is no name', ['schema', '--dialect', 'mysql', '--prefix', 'a;b'], 2, /'a;b' is not a name/],
  ['an id that is no number', ['retry', 'x', '--database', 'sqlite::memory:'], 2, /an id is a number/],
  ['a database without the tables', ['show', '--database', 'sqlite::memory:'], 1, /DATABASE_FAILED.*no such table/s],
  [
    'a database that is not there',
    ['show', '--database', 'mysql://127.0.0.1:1/x'],
    1,
    /DATABASE_FAILED.*ECONNREFUSED/s,
  ],
])('%s is refused', async (_what, args, code, message) => {
  const ended = await run(...args);
  expect(ended).toMatchObject({ code, stdout: '' });
  expect(ended.stderr).toMatch(message);
});
