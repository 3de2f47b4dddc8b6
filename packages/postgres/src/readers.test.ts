import type { Key } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { DatabaseError, type Session } from './database.ts';
import { type After, givenUpError, Link } from './link.ts';
import { Readers } from './readers.ts';

/** Waits take no time. */
const after: After = (_ms, callback) => {
  queueMicrotask(callback);
  return () => {};
};

/** Readers of a server that answers no read. `onConnect` is called when one is opened. */
function setUp(onConnect: (nth: number, link: Link) => void) {
  const lines: object[] = [];
  const log = {
    info() {},
    warn: (fields: object, message: string) => void lines.push({ ...fields, message }),
    error() {},
  };
  let connections = 0;
  const session = (): Session =>
    ({
      get: () => Promise.reject(new DatabaseError('lost', 'the connection is gone')),
      end() {},
    }) as unknown as Session;
  const database = {
    async connect() {
      onConnect(++connections, link);
      return session();
    },
  };
  const me = { name: 'node', fence: 1, instance: 'i' };
  const link = new Link({ database, session: session(), me, acknowledged: 0, after, log, onLost() {} });
  const readers = new Readers(database, link, async () => {}, log);
  const read = () => readers.read((from, name) => from.get(name, Family.ready, ['a' as Key]));
  return { read, lines };
}

test('a read that nobody answers goes on until the store is given up, and says so now and then', async () => {
  const { read, lines } = setUp((nth, link) => {
    if (nth === 250) link.end(givenUpError());
  });
  await expect(read()).rejects.toThrow('the database did not answer before the store was closed');
  expect(lines).toMatchObject([{ tries: 100 }, { tries: 200 }]);
  expect(lines[0]).toMatchObject({
    err: { message: 'the connection is gone' },
    message: 'the database does not answer a read; trying again',
  });
});
