import { pidText, type QueueEvent } from '@taskmaster/client';
import { connectionLost } from '@taskmaster/client/testing';
import { type EventKind, methods, type ReadEventsResponse } from '@taskmaster/proto';
import { describe, expect, test, vi } from 'vitest';
import { type ClientSetUp, clientSetUp } from './support/client-set-up.ts';

const shown = ({ kind, pid, text }: QueueEvent): string =>
  [kind, pid && pidText(pid), text].filter((part) => part !== undefined).join(' ');

/** Follows events while the test goes on. */
function following({ client }: ClientSetUp, ...args: Parameters<ClientSetUp['client']['events']>) {
  const seen: QueueEvent[] = [];
  const over = (async () => {
    for await (const event of client.events(...args)) seen.push(event);
  })();
  return { seen, over };
}

test('an iterator has what happens, as it happens', async () => {
  const made = clientSetUp({ workerLabel: 'w' });
  const { client, timing } = made;
  const { seen } = following(made, 'shop#*');
  await timing.advance(10);
  const mail = client.queue<string>('shop#mail');
  await mail.enqueue('x', { pid: 'a', key: 'k' });
  await client.queue('bank#mail').enqueue('x', { pid: 'b' });
  const [task] = await mail.lease();
  await task?.reportProgress('half');
  await task?.release({ error: new Error('busy'), deadLetter: true });
  await timing.advance(10);
  expect(seen.map(shown)).toEqual(['enqueued a', 'leased a', 'progressed a half', 'dead-lettered a Error: busy']);
  expect(seen[1]).toMatchObject({ queue: 'shop#mail', key: 'k', attempts: 1, worker: 'w', movedTo: undefined });
  expect(seen[1]?.at).toBeInstanceOf(Date);
  expect(seen[3]?.movedTo).toMatchObject({ queue: 'shop#mail.dead' });
});

test('one of a task has its events and none of others', async () => {
  const made = clientSetUp();
  const { client, timing } = made;
  const { seen } = following(made, 'shop#mail', { pid: 'b', kinds: ['enqueued', 'removed', 'queue-deleted'] });
  await timing.advance(10);
  const mail = client.queue<string>('shop#mail');
  for (const pid of ['a', 'b']) await mail.enqueue('x', { pid });
  await client.update().dequeue(mail, 'b').commit();
  await mail.delete();
  await timing.advance(10);
  expect(seen.map(shown)).toEqual(['enqueued b', 'removed b', 'queue-deleted']);
  expect(seen[2]?.tasks).toBe(1);
});

test('a position is enough to go on, and without following the iterator ends', async () => {
  const { client } = clientSetUp();
  const after = await client.eventPosition('shop#*');
  const mail = client.queue<number>('shop#mail');
  await mail.enqueueMany(Array.from({ length: 2_500 }, (_, at) => ({ data: at })));
  const positions: string[] = [];
  for await (const { position } of client.events('shop#*', { after, follow: false })) positions.push(position);
  expect(new Set(positions).size).toBe(2_500);
  let rest = 0;
  for await (const _ of client.events('shop#*', { after: positions[2_400] ?? '', follow: false })) rest++;
  expect(rest).toBe(99);
});

describe('while no node answers', () => {
  test('the iterator goes on, and misses nothing', async () => {
    const made = clientSetUp({ retry: { maxAttempts: 1 } });
    const { client, timing, transport } = made;
    const { seen } = following(made, 'shop#*');
    await timing.advance(10);
    for (let times = 0; times < 3; times++) {
      transport.faults.readEvents.push({ when: 'before', error: connectionLost() });
    }
    await client.queue('shop#mail').enqueue('x', { pid: 'a' });
    await timing.advance(10);
    await client.queue('shop#mail').enqueue('x', { pid: 'b' });
    await timing.advance(5_000);
    expect(seen.map(shown)).toEqual(['enqueued a', 'enqueued b']);
  });
});

test('an event of a kind that the client does not know is left out', async () => {
  const { client, transport } = clientSetUp();
  const after = await client.eventPosition('shop#*');
  const mail = client.queue<string>('shop#mail');
  await mail.enqueueMany([
    { data: 'x', pid: 'a' },
    { data: 'x', pid: 'b' },
  ]);
  const unary = transport.unary.bind(transport);
  vi.spyOn(transport, 'unary').mockImplementation(async (method, request, options) => {
    const reply = await unary(method, request, options);
    if (method !== (methods.readEvents as object)) return reply;
    const [first] = (reply as ReadEventsResponse).events;
    if (first !== undefined) first.kind = 9_999 as EventKind;
    return reply;
  });
  const seen: string[] = [];
  for await (const event of client.events('shop#*', { after, follow: false })) seen.push(shown(event));
  expect(seen).toEqual(['enqueued b']);
});

test('its signal ends it', async () => {
  const made = clientSetUp();
  const abort = new AbortController();
  const { over } = following(made, 'shop#*', { signal: abort.signal });
  await made.timing.advance(10);
  abort.abort();
  await expect(over).rejects.toMatchObject({ reason: 'CANCELLED' });
  await made.timing.advance(10);
  expect((await made.engine.figures()).eventReaders).toBe(0);
});

test.each<[string, object, RegExp]>([
  ['an unknown kind', { kinds: ['done'] }, /kinds: 'done' is none of missed, enqueued/],
  ['no kinds', { kinds: [] }, /kinds: must be a list of at least one kind/],
  ['a kind instead of a list', { kinds: 'completed' }, /kinds: must be a list/],
  ['a PID and a key', { pid: 'a', key: 'k' }, /pid or key/],
  ['an empty PID', { pid: '' }, /at least one byte/],
  ['a misspelt option', { from: '1-1' }, /from/],
])('%s is a wrong use', (_what, options, message) => {
  const { client } = clientSetUp();
  expect(() => client.events('*#*')).toThrow('a pattern chooses queues of one group');
  expect(() => client.events('shop#*', options)).toThrow(message);
});

test.each(['x', '1', '99999-1'])('the position %s is refused', async (after) => {
  const { client } = clientSetUp();
  await expect(client.events('shop#*', { after, follow: false }).next()).rejects.toMatchObject({
    reason: 'INVALID_ARGUMENT',
    metadata: { field: 'after' },
  });
});
