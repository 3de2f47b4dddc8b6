import { pidText } from '@taskmaster/client';
import { connectionLost, Renewer } from '@taskmaster/client/testing';
import { describe, expect, test } from 'vitest';
import { clientSetUp } from './support/client-set-up.ts';

const LEASE_MS = 30_000;

/** A renewer with the leases of tasks `0`, `1`, ... */
async function setUp({ tasks = 1, keepMs = 3_600_000, limitMs = Number.POSITIVE_INFINITY } = {}) {
  const { client, timing, transport, engine } = clientSetUp();
  const renewed: number[] = [];
  const refused: [number, string][] = [];
  const renewer = new Renewer({
    transport,
    timing,
    random: () => 0.5,
    onRenewed: (ids) => renewed.push(...ids),
    onCancelled: () => {},
    onRefused: (id, { reason }) => refused.push([id, reason]),
  });
  const source = client.queue<number>('q');
  await source.enqueueMany(Array.from({ length: tasks }, (_, i) => ({ data: i, pid: String(i) })));
  const leased = await source.lease({ max: tasks, leaseDuration: LEASE_MS });
  const kept = leased.map(({ data, pid, leaseToken }) => {
    const [endsAt, limitAt] = [timing.now() + Math.min(LEASE_MS, limitMs), timing.now() + limitMs];
    const instants = { endsAt, keepUntil: timing.now() + keepMs, limitAt };
    return { id: data, queue: 'q', pid, token: leaseToken, leaseDurationMs: LEASE_MS, ...instants };
  });
  engine.updates.length = 0;
  renewer.keep(kept);
  return { client, timing, transport, engine, renewer, renewed, refused, kept };
}

test('a lease is renewed after each third of its length', async () => {
  const { timing, engine, renewed } = await setUp();
  await timing.advance(9_999);
  expect(engine.updates).toHaveLength(0);
  await timing.advance(1);
  expect(engine.updates).toHaveLength(1);
  await timing.advance(90_000);
  expect(engine.updates).toHaveLength(10);
  expect(renewed).toHaveLength(10);
});

test('many leases are renewed in one request', async () => {
  const { timing, engine } = await setUp({ tasks: 400 });
  await timing.advance(10_000);
  expect(engine.updates.map(({ renew }) => renew.length)).toEqual([400]);
});

test('a forgotten lease is not renewed, and its timer is cancelled', async () => {
  const { timing, engine, renewer } = await setUp();
  renewer.forget(0);
  await timing.advance(60_000);
  expect(engine.updates).toHaveLength(0);
  expect(timing.timers).toBe(0);
});

test('a lost lease has no effect on the renewal of others', async () => {
  const { client, timing, engine, renewed, refused } = await setUp({ tasks: 3 });
  await client.update().dequeue('q', '1').commit();
  engine.updates.length = 0;
  await timing.advance(10_000);
  expect(refused).toEqual([[1, 'TASK_NOT_FOUND']]);
  expect(renewed).toEqual([0, 2]);
});

test('leases of a repeated request are not renewed by another one meanwhile', async () => {
  const { client, timing, transport, engine, renewer, kept } = await setUp({ tasks: 3 });
  await client.update().dequeue('q', '1').commit();
  engine.updates.length = 0;
  const sent: string[][] = [];
  transport.answers.updateTasks = ({ renew }, send) => {
    sent.push(renew.map(({ pid }) => pidText(pid)));
    return sent.length === 2 ? new Promise(() => {}) : send();
  };
  await timing.advance(10_000);
  expect(sent).toEqual([
    ['0', '1', '2'],
    ['0', '2'],
  ]);
  // Another lease that is due wakes the renewer while the repetition has no answer.
  renewer.keep(kept.slice(1, 2).map((lease) => ({ ...lease, id: 3 })));
  await timing.advance(1);
  expect(sent.slice(2)).toEqual([['1']]);
});

describe('a renewal without an answer', () => {
  test('is repeated until it succeeds, well within the lease', async () => {
    const { timing, transport, renewed } = await setUp();
    transport.faults.updateTasks.push(
      { when: 'before', error: connectionLost() },
      { when: 'before', error: connectionLost() },
    );
    await timing.advance(11_000);
    expect(renewed).toEqual([0]);
  });

  test('is repeated beyond the end of the lease, until the node refuses it', async () => {
    const { timing, transport, refused } = await setUp();
    transport.faults.updateTasks.push(
      ...Array.from({ length: 20 }, () => ({ when: 'before', error: connectionLost() }) as const),
    );
    await timing.advance(29_000);
    expect(refused).toEqual([]);
    await timing.advance(60_000);
    expect(refused).toEqual([[0, 'LEASE_EXPIRED']]);
  });
});

test('a lease of a hanging handler is not renewed for ever', async () => {
  const { timing, engine, refused } = await setUp({ keepMs: 45_000 });
  await timing.advance(45_000);
  const sent = engine.updates.length;
  expect(refused).toEqual([]);
  await timing.advance(40_000);
  expect(engine.updates).toHaveLength(sent);
  expect(refused).toEqual([[0, 'LEASE_EXPIRED']]);
  expect(timing.timers).toBe(0);
});

test('a closed renewer reports nothing, even if an answer comes later', async () => {
  const { timing, transport, renewer } = await setUp();
  transport.faults.updateTasks.push({ when: 'before', error: connectionLost() });
  const advancing = timing.advance(10_000);
  renewer.close();
  await advancing;
  expect(timing.timers).toBe(0);
});

describe('a lease with a time limit', () => {
  test.each([
    ['shorter than the lease', 5_000, 0],
    ['as long as the lease', 30_000, 0],
    ['reached by the first renewal', 40_000, 1],
    ['reached by the third renewal', 60_000, 3],
  ])('%s is renewed until a renewal extends it no more, and ends at the limit', async (_what, limitMs, renewals) => {
    const { timing, engine, renewed, refused } = await setUp({ limitMs });
    await timing.advance(limitMs - 1);
    expect(engine.updates).toHaveLength(renewals);
    expect(refused).toEqual([]);
    await timing.advance(1);
    expect(refused).toEqual([[0, 'LEASE_EXPIRED']]);
    await timing.advance(60_000);
    expect(renewed).toHaveLength(renewals);
    expect(engine.updates).toHaveLength(renewals);
    expect(timing.timers).toBe(0);
  });

  test('is not renewed after the limit although no renewal was answered', async () => {
    const { timing, transport, engine, refused } = await setUp({ limitMs: 45_000 });
    transport.faults.updateTasks.push(
      ...Array.from({ length: 40 }, () => ({ when: 'before', error: connectionLost() }) as const),
    );
    await timing.advance(50_000);
    expect(refused).toEqual([[0, 'LEASE_EXPIRED']]);
    expect(engine.updates).toHaveLength(0);
  });
});
