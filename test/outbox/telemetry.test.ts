import { type Span, trace } from '@opentelemetry/api';
import { openMemory } from '@taskmaster/node/memory';
import { Relay } from '@taskmaster/outbox';
import { expect, test } from 'vitest';
import { isSpan, RecordedMetrics, registeredSdk } from '../client/support/recorded-telemetry.ts';
import { openSqlite } from './databases.ts';

const inSpan = <R>(name: string, work: () => Promise<R>): Promise<R> =>
  trace.getTracer('of the user').startActiveSpan(name, async (span: Span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  });

test('a task of a transaction is in the trace of its caller, also what its handler enqueues in a transaction', async () => {
  using spans = registeredSdk();
  await using db = await openSqlite();
  await using client = await openMemory();
  const relay = new Relay({ client, outbox: db.outbox, query: db.query });
  await using worker = client.worker(client.queue('shop#mail'), (task) =>
    db.outbox.enqueue(db.query, 'shop#archive', task.data, { headers: { ...task.headers, tenant: 'acme' } }),
  );
  await inSpan('a request', () => db.transaction((tx) => db.outbox.enqueue(tx, 'shop#mail', { order: 17 })));
  await relay.drain();
  worker.start();
  await worker.untilIdle();
  await relay.drain();
  await using archive = client.worker(client.queue('shop#archive'), ({ headers }) => {
    expect(headers.tenant).toBe('acme');
  });
  archive.start();
  await archive.untilIdle();
  expect(spans.pathTo(spans.one('process shop#archive'))).toEqual([
    'a request',
    'process shop#mail',
    'process shop#archive',
  ]);
  expect(spans.all.map(({ name }) => name).filter((name) => name.includes('outbox'))).toEqual([]);
  const [sending] = spans.named('enqueue shop#mail').flatMap(({ links }) => links);
  expect(isSpan(sending?.context, spans.one('a request'))).toBe(true);
  await relay.stop();
});

test('a task without a span around its enqueue carries none, and headers of its own stay', async () => {
  using _spans = registeredSdk();
  await using db = await openSqlite();
  await using client = await openMemory({ client: { telemetry: false } });
  const own = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  await db.outbox.enqueue(db.query, 'q', 1);
  await inSpan('a request', () => db.outbox.enqueue(db.query, 'q', 2, { headers: { traceparent: own } }));
  const relay = new Relay({ client, outbox: db.outbox, query: db.query });
  await relay.drain();
  const leased = await client.queue('q').lease({ max: 2 });
  expect(leased.map(({ headers }) => ({ ...headers }))).toEqual([{}, { traceparent: own }]);
  await relay.stop();
});

test('metrics tell what a relay has sent, what waits and since when, what was refused and what failed', async () => {
  await using db = await openSqlite();
  const recorded = new RecordedMetrics();
  await using client = await openMemory({ client: { telemetry: { meterProvider: recorded.provider } } });
  let fails = false;
  let statements = 0;
  const relay = new Relay({
    client,
    outbox: db.outbox,
    query: (...statement) => {
      statements++;
      return fails ? Promise.reject(new Error('no database')) : db.query(...statement);
    },
    onError: () => undefined,
  });
  const valueNow = async (name: string): Promise<unknown> =>
    (await recorded.points(`taskmaster.outbox.${name}`))[0]?.value;

  await db.outbox.enqueueMany(db.query, [client.queue('q').task(1, { pid: 'p' }), client.queue('q').task(2)]);
  await relay.drain();
  await db.outbox.enqueue(db.query, 'q', 3, { pid: 'p', mode: 'fail' });
  await relay.drain();
  expect(await valueNow('sent_tasks')).toBe(2);
  // The tasks of the user, and the one that was refused: what the relay notes at the node is not among them.
  const sent = await recorded.points('messaging.client.sent.messages');
  expect(sent.map(({ value, attributes }) => [value, attributes['messaging.destination.name']])).toEqual([
    [2, 'q'],
    [1, 'q'],
  ]);
  expect(await valueNow('refused_tasks')).toBe(1);
  expect(await valueNow('delay')).toMatchObject({ count: 1 });
  expect(await valueNow('waiting_tasks')).toBe(0);

  await db.query(`UPDATE ${db.outbox.tables.refused} SET created_ms = created_ms - 60000`, []);
  await db.outbox.retryRefused(db.query);
  expect(await valueNow('waiting_tasks')).toBe(1);
  expect(await valueNow('oldest_age')).toBeGreaterThanOrEqual(60);

  fails = true;
  await relay.drain();
  const [failures] = await recorded.points('taskmaster.outbox.failures');
  expect(failures).toMatchObject({ value: 1, attributes: { 'error.type': 'database' } });
  fails = false;
  await relay.stop();
  const before = statements;
  await valueNow('waiting_tasks');
  expect(statements, 'a relay that has stopped reads nothing').toBe(before);
});
