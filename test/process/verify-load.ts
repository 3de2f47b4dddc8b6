import { eventsBehind, type FinalTask, type History, showHistory, violationsOf } from '@taskmaster/cli/testing/history';
import { type LeasedTask, type Queue, type TaskMasterClient, textCodec } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.ts';

type State = 'available' | 'leased' | 'delayed';

/** The PIDs in a history, by queue. Dead letters keep their PIDs. */
function pidsIn({ events }: History): Map<string, Set<string>> {
  const pids = new Map<string, Set<string>>();
  const add = (queue: string, pid: string): void => {
    const known = pids.get(queue) ?? new Set();
    pids.set(queue, known.add(pid));
  };
  for (const { call, outcome } of events) {
    if (call.kind !== 'update' || outcome.kind !== 'updated') continue;
    for (const [index, { queue, retry }] of call.enqueue.entries()) {
      const pid = outcome.enqueued[index]?.pid;
      if (pid === undefined) continue;
      add(queue, pid);
      if (retry !== undefined) add(`${queue.split('#')[0]}#dead`, pid);
    }
  }
  return pids;
}

/** PIDs from peeks, up to a thousand in each state: a history has no PIDs for updates without an answer. */
async function shownPids(queue: Queue<unknown>): Promise<string[]> {
  const kinds = ['head', 'leased', 'delayed'] as const;
  const shown = await Promise.all(kinds.map((kind) => queue.peek({ kind, limit: limits.peekTasks, data: false })));
  return shown.flat().map(({ pid }) => Buffer.from(pid).toString('latin1'));
}

/** (e): the counts equal the numbers of a full listing, in every state. */
async function expectExactCounts(
  client: TaskMasterClient,
  byQueue: ReadonlyMap<string, ReadonlySet<string>>,
): Promise<void> {
  for (const [name, pids] of byQueue) {
    const queue = client.queue(name);
    // Leases and delays end while the tasks are listed: only counts that are the same before and after can be compared.
    await eventually(async () => {
      const before = await queue.stats();
      const listed: Record<State, number> = { available: 0, leased: 0, delayed: 0 };
      const named = new Set([...pids, ...(await shownPids(queue))]);
      const all = [...named].map((pid) => Buffer.from(pid, 'latin1'));
      for (let at = 0; at < all.length; at += 1_000) {
        for (const { state } of await queue.get(all.slice(at, at + 1_000), { data: false })) {
          if (state !== 'not-found') listed[state]++;
        }
      }
      const { available, leased, delayed } = await queue.stats();
      expect({ available, leased, delayed }).toMatchObject({
        available: before.available,
        leased: before.leased,
        delayed: before.delayed,
      });
      expect(listed).toEqual({ available, leased, delayed });
    });
  }
}

/**
 * Leases and completes all tasks until all counts are zero. New leases may still begin, and end in the dead-letter queue: a
 * call that was cancelled while the link was cut may arrive when the cut ends.
 */
export async function drain(client: TaskMasterClient, queues: readonly string[]): Promise<FinalTask[]> {
  const found: FinalTask[] = [];
  await eventually(
    async () => {
      for (const name of queues) {
        for await (const taken of emptied(client, client.queue(name, { codec: textCodec }))) {
          for (const { pid, data } of taken) found.push({ queue: name, pid: pid.toString(), data });
        }
      }
      // Twice: a read of one queue may move a dead task to a queue that was read before.
      for (const name of [...queues, ...queues]) {
        const { available, leased, delayed } = await client.queue(name).stats();
        expect({ name, available, leased, delayed }).toEqual({ name, available: 0, leased: 0, delayed: 0 });
      }
    },
    { withinMs: 20_000 },
  );
  return found;
}

async function* emptied(client: TaskMasterClient, queue: Queue<string>): AsyncGenerator<readonly LeasedTask<string>[]> {
  for (;;) {
    const tasks = await queue.lease({ max: 1_000, leaseDuration: '5s' });
    if (tasks.length === 0) return;
    const completion = client.update();
    for (const task of tasks) completion.complete(task);
    await completion.commit();
    yield tasks;
  }
}

/** Checks a load: takes all tasks out and compares them with the history. */
export async function verifyLoad(
  client: TaskMasterClient,
  history: History,
): Promise<{ readonly summary: string; readonly problem: string }> {
  const byQueue = pidsIn(history);
  await expectExactCounts(client, byQueue);
  const found = await drain(client, [...byQueue.keys()]);
  const { events } = history;
  const outcomes = Object.groupBy(events, ({ outcome }) => outcome.kind);
  const summary =
    `${events.length} calls, ${outcomes.updated?.length ?? 0} updates and ${outcomes.leased?.length ?? 0} leases ` +
    `acknowledged, ${outcomes.refused?.length ?? 0} refused, ${outcomes.unknown?.length ?? 0} unknown, ` +
    `${found.length} tasks left`;
  const violations = violationsOf(events, found);
  const [first] = violations;
  const problem = first
    ? `${violations.length} violations, the first: ${JSON.stringify(first)}\n${showHistory(eventsBehind(first, events))}`
    : '';
  return { summary, problem };
}
