import type { Key } from '@taskmaster/engine/domain';
import { Family, StoreFailedError, StoreFullError, StoreLostError, WriteBatch } from '@taskmaster/engine/ports';
import { expect, test } from 'vitest';
import { Committer } from './committer.ts';
import { type Commit, DatabaseError, type NodeRow, type Session } from './database.ts';
import { type After, Link } from './link.ts';

const ME = { name: 'node', fence: 1, instance: 'i' };
/** Waits take no time. */
const after: After = (_ms, callback) => {
  queueMicrotask(callback);
  return () => {};
};

/** What a server does with a commit, and what it answers. */
type Answer =
  | 'applied'
  | 'lost'
  | 'applied, answer lost'
  | 'taken back by a failover'
  | 'full'
  | 'a fault of the driver';

/** A committer on a server that does this with commits, one after the other. */
function setUp(answers: readonly Answer[]) {
  const left = [...answers];
  const node: { row: NodeRow } = { row: { fence: 1, instance: 'i', seq: 0, began: 0 } };
  const sent: { readonly seq: number; readonly families: number }[] = [];
  const session = (): Pick<Session, 'commit' | 'node' | 'markLost' | 'end'> => ({
    async node() {
      return node.row;
    },
    async commit(_me, { seq, behind, changes }: Commit) {
      if (node.row.seq !== (behind ?? seq - 1)) return undefined;
      sent.push({ seq, families: changes.size });
      const answer = left.shift() ?? 'applied';
      if (answer === 'full') throw new DatabaseError('full', 'no space');
      if (answer === 'a fault of the driver') throw new RangeError('out of range');
      if (answer === 'lost') throw new DatabaseError('lost', 'the connection is gone');
      node.row = { ...node.row, seq: answer === 'taken back by a failover' ? 0 : seq };
      if (answer !== 'applied') throw new DatabaseError('lost', 'the connection is gone');
      return 0;
    },
    async markLost() {},
    end() {},
  });
  const lost: StoreLostError[] = [];
  const link = new Link({
    database: { connect: async () => session() as Session },
    session: session() as Session,
    me: ME,
    acknowledged: 0,
    after,
    log: { info() {}, warn() {}, error() {} },
    onLost: (cause) => lost.push(cause),
  });
  const failed: StoreFailedError[] = [];
  const committer = new Committer({ link, after, onFull() {}, onFailed: (cause) => failed.push(cause) });
  const write = (): Promise<void> => {
    const batch = new WriteBatch();
    batch.put(Family.ready, 'a' as Key, Buffer.from('v'));
    return committer.submit({ kind: 'write', records: batch.take() });
  };
  return { write, sent, lost, failed };
}

test('a commit whose answer was lost is acknowledged with the next one', async () => {
  const { write, sent } = setUp(['applied, answer lost', 'applied, answer lost', 'applied']);
  await write();
  expect(sent).toEqual([
    { seq: 1, families: 1 },
    { seq: 2, families: 0 },
    { seq: 3, families: 0 },
  ]);
});

test('a commit that was never acknowledged is sent again after a failover has taken it back', async () => {
  const { write, sent, lost } = setUp(['applied, answer lost', 'taken back by a failover', 'applied']);
  await write();
  expect(lost).toEqual([]);
  expect(sent).toEqual([
    { seq: 1, families: 1 },
    { seq: 2, families: 0 },
    { seq: 1, families: 1 },
  ]);
});

test('a commit that was applied is not refused because the database has become full', async () => {
  const { write, sent } = setUp(['applied, answer lost', 'full', 'full', 'applied']);
  await write();
  expect(sent.map(({ seq }) => seq)).toEqual([1, 2, 2, 2]);
});

test('a commit that may arrive late leaves its number out when it is refused', async () => {
  const { write, sent } = setUp(['lost', 'full', 'applied, answer lost', 'applied', 'applied']);
  await expect(write()).rejects.toBeInstanceOf(StoreFullError);
  await write();
  // The second could not be applied after the third, whose answer was lost.
  expect(sent.map(({ seq }) => seq)).toEqual([1, 1, 2, 3, 4]);
});

test('a commit that was acknowledged and is gone ends the store', async () => {
  const { write, lost } = setUp(['applied', 'taken back by a failover']);
  await write();
  await expect(write()).rejects.toBeInstanceOf(StoreLostError);
  expect(lost.map(({ kind }) => kind)).toEqual(['reverted']);
});

test('the store has failed after an error that nobody expects, and says so', async () => {
  const { write, failed } = setUp(['a fault of the driver']);
  await expect(write()).rejects.toBeInstanceOf(StoreFailedError);
  expect(failed.map(({ message }) => message)).toEqual(['the database refuses a write: out of range']);
  await expect(write()).rejects.toBe(failed[0]);
});
