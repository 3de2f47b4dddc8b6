import { type Line, LineEnqueuer, type LinesSettings, PAUSE } from '@taskmaster/cli/testing';
import { makeError } from '@taskmaster/client/internal';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from '../client/support/client-set-up.ts';

const SHARDS = 4;
const COUNT = 40;

async function* lines(): AsyncGenerator<Line> {
  for (let number = 1; number <= COUNT; number++) {
    const bytes = Buffer.from(`pid-${number}`);
    yield { bytes, number, endsAt: number * bytes.byteLength };
  }
}

function setUp(change: Partial<LinesSettings> = {}) {
  const made = clientSetUp();
  const enqueuer = new LineEnqueuer(made.client, {
    queue: 'sh#q',
    shards: SHARDS,
    pids: { kind: 'column', column: 1, separator: Buffer.from('\t') },
    headersField: undefined,
    task: {},
    batchTasks: 5,
    inFlight: 1,
    fromLine: 1,
    ...change,
  });
  const pidsOf = (shard: number): Promise<string[]> => made.engine.pids(`sh~${shard}#q`);
  return { ...made, enqueuer, pidsOf };
}

test('lines that have come are sent when the input pauses, and the batch begins anew', async () => {
  const { enqueuer, engine } = setUp({ shards: undefined, pids: { kind: 'none' }, batchTasks: 1_000 });
  const stored: number[] = [];
  const slow = async function* (): AsyncGenerator<Line | typeof PAUSE> {
    for await (const line of lines()) {
      yield line;
      if (line.number % 10 !== 0) continue;
      yield PAUSE;
      // The batch before has been sent by now.
      stored.push(enqueuer.report.storedThroughLine);
      yield PAUSE;
    }
  };
  await enqueuer.run(slow());
  expect(stored.at(-1)).toBeGreaterThanOrEqual(30);
  expect(enqueuer.report).toMatchObject({ created: COUNT, storedThroughLine: COUNT });
  expect(await engine.pids('sh#q')).toHaveLength(COUNT);
});

describe('lines of a sharded queue', () => {
  test('with PIDs go to the shards of their PIDs', async () => {
    const { client, enqueuer, pidsOf } = setUp();
    await enqueuer.run(lines());
    const queue = client.shardedQueue('sh#q', { shards: SHARDS });
    for (let number = 1; number <= COUNT; number++) {
      const pid = `pid-${number}`;
      expect(await pidsOf(Number(/~(\d)/.exec(queue.shardOf(pid).name)?.[1]))).toContain(pid);
    }
    expect(enqueuer.report).toMatchObject({ created: COUNT, storedThroughLine: COUNT, unacknowledged: [] });
  });

  test('without PIDs go to the shards in turn, a batch to each', async () => {
    const { enqueuer, pidsOf } = setUp({ pids: { kind: 'none' } });
    await enqueuer.run(lines());
    const stored = await Promise.all([0, 1, 2, 3].map(pidsOf));
    expect(stored.map(({ length }) => length)).toEqual([10, 10, 10, 10]);
  });

  test('that were not stored are behind storedThroughLine, also if later lines of other shards were stored', async () => {
    const { enqueuer, transport, pidsOf } = setUp();
    transport.faults.updateTasks.push(undefined, undefined, {
      when: 'before',
      error: makeError('no', { reason: 'INVALID_QUEUE' }),
    });
    await expect(enqueuer.run(lines())).rejects.toMatchObject({ reason: 'INVALID_QUEUE' });
    const stored = new Set((await Promise.all([0, 1, 2, 3].map(pidsOf))).flat());
    expect(stored.size).toBe(10);
    const { storedThroughLine, unacknowledged } = enqueuer.report;
    for (let number = 1; number <= storedThroughLine; number++) expect(stored).toContain(`pid-${number}`);
    expect(stored).not.toContain(`pid-${storedThroughLine + 1}`);
    // Lines of other shards are among them.
    expect(unacknowledged).toMatchObject([{ maybeStored: true }]);
  });
});
