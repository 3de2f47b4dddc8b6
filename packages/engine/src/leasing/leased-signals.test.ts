import { EnqueueMode, limits } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import type { LeasedTask } from '../domain/commands.ts';
import { type EngineHarness, engineHarness, type LeaseSpec } from '../testing/engine-harness.ts';

const QUEUE = 'g#q';
const { ENQUEUE_MODE_SIGNAL: SIGNAL } = EnqueueMode;

/** Tasks that have got a signal with so many bytes. */
const setUp = (h: EngineHarness, pids: readonly string[], bytes = 4) =>
  h.update({
    enqueue: pids.flatMap((pid) => [
      { queue: QUEUE, pid, waitFor: 1 },
      { queue: QUEUE, pid, mode: SIGNAL, signalId: pid, data: pid.padEnd(bytes) },
    ]),
  });

const lease = (h: EngineHarness, spec: LeaseSpec = {}) => h.lease(QUEUE, { max: 10, includeSignals: true, ...spec });

const cameFor = ({ signals }: LeasedTask) =>
  signals?.kind === 'all' ? signals.box.kept.map(({ id }) => id).join() : signals?.kind;

describe.each(['in memory', 'after a crash'])('signals of leased tasks, %s', (where) => {
  const restart = (h: EngineHarness): Promise<void> => (where === 'in memory' ? Promise.resolve() : h.crash());

  test('come with their leases if they are asked for', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'b']);
    await h.enqueue(QUEUE, ['c']);
    await restart(h);
    const [a] = await lease(h, { max: 1, includeSignals: false });
    expect(a?.signals).toBeUndefined();
    expect((await lease(h)).map(cameFor)).toEqual(['b', undefined]);
    // Each attempt gets them.
    await h.update({ release: [{ queue: QUEUE, pid: 'a', token: a?.token }] });
    expect((await lease(h)).map(cameFor)).toEqual(['a']);
  });

  test('are left out if they are too much for a lease, or for the reply', async () => {
    await using h = await engineHarness();
    await setUp(h, ['a', 'c'], limits.leasedSignalsBytes - 100);
    await setUp(h, ['b'], limits.leasedSignalsBytes - 10);
    await restart(h);
    const reply = { maxBytes: 1.5 * limits.leasedSignalsBytes };
    expect((await lease(h, reply)).map(cameFor)).toEqual(['a', 'left out', 'left out']);
  });
});

test('the ends of many children take no more of a reply than a lease may', async () => {
  await using h = await engineHarness();
  const group = 'g'.repeat(limits.nameBytes);
  const parent = { queue: `${group}#p`, pid: 'p' };
  const pids = Array.from({ length: 200 }, (_, at) => `${at}`);
  await h.update({
    enqueue: [
      { ...parent, waitFor: { signals: 200, collect: true } },
      ...pids.map((pid) => ({ queue: `${group}#c`, pid, parent })),
    ],
  });
  const leased = await h.lease(`${group}#c`, { max: 200 });
  await h.update({ dequeue: leased.map(({ pid, token }) => ({ queue: `${group}#c`, pid, token })) });
  const [task] = await h.lease(parent.queue, { includeSignals: true });
  expect(task?.signals).toEqual({ kind: 'left out' });
});
