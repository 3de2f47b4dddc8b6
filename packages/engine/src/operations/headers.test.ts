import { EnqueueMode, parseQueueName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import { dataOf, headersOf, withHeaders } from '../domain/headers.ts';
import type { Pid } from '../domain/ids.ts';
import { type EngineHarness, type EnqueueSpec, engineHarness } from '../testing/engine-harness.ts';

const { ENQUEUE_MODE_COLLAPSE: COLLAPSE, ENQUEUE_MODE_REPLACE: REPLACE } = EnqueueMode;
const { ENQUEUE_MODE_RERUN: RERUN, ENQUEUE_MODE_RERUN_FIRST: FIRST } = EnqueueMode;
type Sent = readonly [headers: Record<string, string>, data: string];

const OLD: Sent = [{ of: 'old', tenant: 'acme' }, 'old data'];
const NEW: Sent = [{ of: 'new' }, 'new data'];
const PLAIN: Sent = [{}, 'plain data'];

function sent([headers, data]: Sent, more: Partial<EnqueueSpec> = {}): EnqueueSpec {
  const payload = withHeaders(headers, Buffer.from(data));
  const text = Buffer.from(payload.data).toString();
  return { queue: 'g#q', pid: 'p', data: text, headerBytes: payload.headerBytes, ...more };
}
const enqueue = (h: EngineHarness, of: Sent, mode: EnqueueMode) => h.update({ enqueue: [sent(of, { mode })] });

const received = (task: LeasedTask | undefined): Sent | undefined =>
  task && [{ ...headersOf(task) }, Buffer.from(dataOf(task)).toString()];
const leased = async (h: EngineHarness, queue = 'g#q'): Promise<Sent | undefined> =>
  received((await h.lease(queue, { for: 1_000 }))[0]);

async function shown(h: EngineHarness): Promise<Sent | undefined> {
  const command = { queue: parseQueueName('g#q'), pids: ['p' as Pid], includeData: true };
  const [view] = await h.engine.getTasks(command);
  if (view?.state === undefined || view.data === undefined) return undefined;
  return received({ ...view, ...view.state, data: view.data } as unknown as LeasedTask);
}

test.each([
  ['an enqueue that collapses', OLD, COLLAPSE, NEW, OLD],
  ['an enqueue that replaces', OLD, REPLACE, NEW, NEW],
  ['an enqueue that replaces, without headers', OLD, REPLACE, PLAIN, PLAIN],
  ['an enqueue that replaces one without headers', PLAIN, REPLACE, NEW, NEW],
  ['a rerun of a waiting task', OLD, RERUN, NEW, NEW],
  ['a rerun with the first data', OLD, FIRST, NEW, OLD],
])('%s leaves the headers of the data that stay, also after a crash', async (_what, first, mode, second, expected) => {
  await using h = await engineHarness();
  await enqueue(h, first, COLLAPSE);
  await enqueue(h, second, mode);
  expect(await shown(h)).toEqual(expected);
  await h.crash();
  expect(await shown(h)).toEqual(expected);
  expect(await leased(h)).toEqual(expected);
});

test('a leased task runs once more with the headers of the latest data', async () => {
  await using h = await engineHarness();
  await enqueue(h, OLD, COLLAPSE);
  const [task] = await h.lease('g#q');
  await enqueue(h, NEW, RERUN);
  expect(received(task)).toEqual(OLD);
  await h.update({ dequeue: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
  expect(await leased(h)).toEqual(NEW);
});

test('a dead letter has its headers, in its dead-letter queue and when it is put back', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [sent(OLD, { retry: { maxAttempts: 1 } })] });
  const [task] = await h.lease('g#q');
  await h.crash();
  await h.update({ release: [{ queue: 'g#q', pid: 'p', token: task?.token }] });
  await h.crash();
  await h.update({ dequeue: [{ queue: 'g#q.dead', pid: 'p', requeue: true }] });
  expect(await leased(h)).toEqual(OLD);
});

test.each([
  ['a lease', leased, 1],
  ['a lease, with slow writes,', leased, 30],
  ['a get', shown, 1],
  ['a get, with slow writes,', shown, 30],
])(
  '%s whose payload is replaced while it is read has headers and data of one payload',
  async (_what, read, writeMs) => {
    await using h = await engineHarness({ readMs: 20, writeMs, syncMs: 1 });
    await h.clock.run(enqueue(h, OLD, COLLAPSE));
    let before = OLD;
    // A get reads the payload at 20 ms, a lease at 20 ms after a look for tasks. A replacement may take longer than a read.
    for (const [ms, next] of [
      [5, PLAIN],
      [25, NEW],
      [35, OLD],
      [30, PLAIN],
      [15, NEW],
      [45, OLD],
    ] as const) {
      // After a crash the payload is only on disk.
      await h.crash();
      const reading = read(h);
      await h.clock.advance(ms);
      await h.clock.run(enqueue(h, next, REPLACE));
      expect([before, next]).toContainEqual(await h.clock.run(reading));
      await h.clock.advance(2_000);
      before = next;
    }
  },
);

test('the same request with other headers is a different one', async () => {
  await using h = await engineHarness();
  await h.update({ enqueue: [sent(OLD)], id: 'id' });
  await h.update({ enqueue: [sent(OLD)], id: 'id' });
  const asData = { ...sent(OLD), headerBytes: 0 };
  await expect(h.update({ enqueue: [asData], id: 'id' })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
});
