import type { CallOf, History, HistoryEvent, LeasedReply, UpdateCall } from '@taskmaster/cli/testing/history';
import type { SeededRandom } from '@taskmaster/engine/testing';
import { limitQueues, unlimitQueues } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import {
  encodeToBuffer,
  formatQueueName,
  type LeaseRate,
  LimitQueuesRequest,
  LimitQueuesResponse,
  parseQueueName,
  UnlimitQueuesRequest,
} from '@taskmaster/proto';
import { GROUPS, QUEUES } from '../calls/workload.ts';
import { type InForce, isAmong, OperatorCalls, type OperatorCallsDeps } from './operator-calls.ts';

const LONGEST_REST_MS = 400;
const LONGEST_LIMIT_MS = 2_500;
/** A limit of a rate holds for longer, so that nodes end and groups move meanwhile. */
const LONGEST_RATE_MS = 8_000;
const RATES_PER_MS = [1_000, 5_000, 30_000];
/** The clocks of nodes approach the system clock by at most a thousandth. */
const CLOCK_RATE = 1.001;
/** After this time most leases, delays and backoffs of the workload are over. */
const MOST_SHOWN_MS = 8_000;
/** A slot of an expired lease is free at most a second later. */
const FREE_WITHIN_MS = 1_000;
const SHORT_LEASE_MS = 100;

interface Limit extends InForce {
  /** 0: any number. */
  readonly maxLeased: number;
  readonly rate: LeaseRate | undefined;
}

type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

interface Granted {
  readonly event: LeaseEvent;
  readonly tasks: readonly LeasedReply[];
}

export interface LimitedQueuesDeps extends OperatorCallsDeps {
  readonly cluster: SimCluster;
  readonly history: History;
  readonly random: SeededRandom;
}

/** Somebody who limits queues during the faults. No task is leased beyond a limit, and a slot does not outlive its lease. */
export class LimitedQueues {
  readonly #deps: LimitedQueuesDeps;
  readonly #calls: OperatorCalls;
  readonly #inForce: Limit[] = [];
  readonly #acting: Promise<void>;
  #stopping = false;
  #limited = 0;

  constructor(deps: LimitedQueuesDeps) {
    this.#deps = deps;
    this.#calls = new OperatorCalls(deps);
    this.#acting = this.#act();
    // `stop` reports its rejection.
    this.#acting.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#acting;
  }

  /**
   * Ends all limits in a settled cluster: a limit whose answer was lost may have come after its end. Before that a limit of one
   * task must give its slot on in time, while tasks and requests wait. Returns the violations.
   */
  async endAll(): Promise<string[]> {
    const { cluster } = this.#deps;
    for (const group of GROUPS) {
      const { limits } = this.#engineOf(group);
      for (const { record } of await cluster.run(limits.list(group))) {
        await cluster.run(limits.unlimit({ group, name: record.pattern }, record.message.keys));
      }
    }
    await cluster.pass(MOST_SHOWN_MS);
    const wrong: string[] = [];
    for (const group of GROUPS) wrong.push(...(await this.#useOneSlot(group)));
    return wrong;
  }

  async #useOneSlot(group: string): Promise<string[]> {
    const { cluster } = this.#deps;
    const queues = QUEUES.filter((queue) => queue.startsWith(`${group}#`));
    const { available, leased } = await this.#count(group, queues);
    // The first task may be hidden by its backoff while the last request waits.
    if (available < 2 || leased > 0) return [];
    await cluster.run(limitQueues(this.#engineOf(group), `${group}#*`, { maxLeased: 1 }));
    const first = await this.#lease(group, queues, 0);
    const second = await this.#lease(group, queues, 0);
    // If it can, the last request waits for other queues than the one whose lease has the slot.
    const others = queues.filter((queue) => queue !== first[0]);
    const hasOthers = (await this.#count(group, others)).available > 0;
    const third = await this.#lease(group, hasOthers ? others : queues, SHORT_LEASE_MS + FREE_WITHIN_MS);
    await cluster.pass(FREE_WITHIN_MS + SHORT_LEASE_MS);
    await cluster.run(unlimitQueues(this.#engineOf(group), `${group}#*`));
    const got = [first, second, third].map(({ length }) => length).join();
    return got === '1,0,1' ? [] : [`(k) leases of ${group}, with a limit of one, got ${got} tasks instead of 1,0,1`];
  }

  async #count(group: string, queues: readonly string[]): Promise<{ available: number; leased: number }> {
    const command = { kind: 'named' as const, queues: queues.map(parseQueueName) };
    return (await this.#deps.cluster.run(this.#engineOf(group).queueStats(command))).totals;
  }

  /** Returns the queues of the leased tasks. */
  async #lease(group: string, queues: readonly string[], waitMs: number): Promise<string[]> {
    const tasks = await this.#deps.cluster.run(
      this.#engineOf(group).leaseTasks({
        queues: queues.map(parseQueueName),
        maxTasks: 10,
        leaseDurationMs: SHORT_LEASE_MS,
        maxPid: undefined,
        waitMs,
        worker: 'slots',
        workerAddress: '',
        maxBytes: Number.MAX_SAFE_INTEGER,
      }),
    );
    return tasks.map(({ queue }) => formatQueueName(queue));
  }

  /** Leases beyond limits, among the calls about groups that were not lost. */
  violations(events: readonly HistoryEvent[]): string[] {
    const updates = events.filter((event): event is HistoryEvent<UpdateCall> => event.call.kind === 'update');
    const leases = events.filter((event): event is LeaseEvent => event.call.kind === 'lease');
    return this.#inForce.flatMap((limit) => {
      const all = leases.flatMap((event): Granted[] => {
        const told = event.outcome.kind === 'leased' ? event.outcome.tasks : [];
        const tasks = told.filter(({ queue }) => isAmong(queue, limit.queues));
        return tasks.length === 0 ? [] : [{ event, tasks }];
      });
      const during = all.filter(({ event }) => limit.from <= event.calledSeq && event.endedSeq < limit.to);
      return [...tooMany(limit, all, during, updates), ...tooFast(limit, during)];
    });
  }

  async #act(): Promise<void> {
    const { history, random, sleep } = this.#deps;
    while (!this.#stopping) {
      await sleep(random.int(LONGEST_REST_MS));
      // Each limit has its own pattern: a late attempt to end one does not end a later one.
      const stars = '*'.repeat(++this.#limited);
      const queues = `${random.pick(GROUPS)}#${random.chance(0.7) ? '' : 'i'}${stars}`;
      const maxLeased = random.int(4);
      const hasRate = maxLeased === 0 || random.chance(0.3);
      const rate = hasRate
        ? { tasks: 1 + random.int(5), perMs: random.pick(RATES_PER_MS), burst: 1 + random.int(3) }
        : undefined;
      const isLimited = await this.#limit(queues, maxLeased, rate);
      const from = history.seq;
      await sleep(random.int(hasRate ? LONGEST_RATE_MS : LONGEST_LIMIT_MS));
      if (isLimited) this.#inForce.push({ queues, maxLeased, rate, from, to: history.seq });
      await this.#calls.again('UnlimitQueues', encodeToBuffer(UnlimitQueuesRequest, { queues, keys: '' }));
    }
  }

  /** False: it is not known whether the queues are limited. */
  async #limit(queues: string, maxLeased: number, rate: LeaseRate | undefined): Promise<boolean> {
    const request = encodeToBuffer(LimitQueuesRequest, { queues, maxLeased, rate, keys: '' });
    const reply = await this.#calls.once('LimitQueues', request);
    return reply !== undefined && LimitQueuesResponse.decode(reply).limit !== undefined;
  }

  #engineOf(group: string) {
    const holder = this.#deps.cluster.holderOf(group);
    if (!holder) throw new Error(`no node holds group ${group}`);
    return holder.h.engine;
  }
}

/** In any time at most so many tasks are leased, also over crashes, failed writes and moves. */
function tooFast({ queues, rate }: Limit, during: readonly Granted[]): string[] {
  if (rate === undefined) return [];
  return during.flatMap(({ event: first }) =>
    during.flatMap(({ event: last }) => {
      if (last.endedAt < first.calledAt) return [];
      const within = during.filter(({ event }) => event.calledAt >= first.calledAt && event.endedAt <= last.endedAt);
      const count = within.reduce((sum, { tasks }) => sum + tasks.length, 0);
      const passedMs = last.endedAt - first.calledAt;
      const most = rate.burst + Math.floor((passedMs * CLOCK_RATE * rate.tasks) / rate.perMs);
      if (count <= most) return [];
      return [`(k) #${first.id} to #${last.id} leased ${count} tasks of ${queues}, at most ${most} in ${passedMs} ms`];
    }),
  );
}

/** Leases while as many tasks as the limit allows were surely leased. */
function tooMany(
  { queues, maxLeased }: Limit,
  all: readonly Granted[],
  during: readonly Granted[],
  updates: readonly HistoryEvent<UpdateCall>[],
): string[] {
  if (maxLeased === 0) return [];
  return during.flatMap(({ event, tasks }) => {
    const held = all.flatMap((earlier) =>
      earlier.event.endedSeq < event.calledSeq
        ? earlier.tasks.filter((task) => validUntil(task, event, updates) > event.endedAt)
        : [],
    );
    const count = held.length + tasks.length;
    if (count <= maxLeased) return [];
    return [`(k) #${event.id} leased a task of ${queues}, of which ${count} were leased then, at most ${maxLeased}`];
  });
}

/** Up to when the lease was surely valid when another one was granted. */
function validUntil(
  { queue, pid, token, until }: LeasedReply,
  next: LeaseEvent,
  updates: readonly HistoryEvent<UpdateCall>[],
): number {
  const isIt = (item: { readonly queue: string; readonly pid: string; readonly token: number | undefined }): boolean =>
    item.token === token && item.queue === queue && item.pid === pid;
  let valid = until;
  for (const { call, calledAt, calledSeq } of updates) {
    if (calledSeq >= next.endedSeq) continue;
    if (call.dequeue.some(isIt) || call.release.some(isIt)) return Number.NEGATIVE_INFINITY;
    for (const item of call.renew) if (isIt(item)) valid = Math.min(valid, calledAt + item.leaseDurationMs);
  }
  return valid;
}
