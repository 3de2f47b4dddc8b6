import type { HistoryEvent } from '@taskmaster/cli/testing/history';
import { SeededRandom } from '@taskmaster/engine/testing';
import { explainCancelled, explainLease } from './explain-lease.ts';
import {
  explainCounts,
  explainDelete,
  explainEnds,
  explainLimit,
  explainPause,
  explainReset,
  explainShown,
} from './explain-reads.ts';
import { explainUpdate } from './explain-update.ts';
import { instantOf, type Setting, sweeps } from './rules.ts';
import { type Span, World } from './world.ts';

/*
 * Checks a history with the algorithm of Wing and Gong. There must be an order of the events in which each takes effect at one
 * instant between its call and its reply, and in which the model gives the replies of the engine. An event with an unknown
 * outcome takes effect before the crash that hid the outcome, or never.
 */

export type Verdict =
  | { readonly kind: 'explained'; readonly steps: number }
  /** No order explains the replies. */
  | {
      readonly kind: 'impossible';
      readonly explained: readonly HistoryEvent[];
      readonly stuckAt: readonly HistoryEvent[];
    }
  /** Too many orders to try them all. */
  | { readonly kind: 'undecided'; readonly steps: number };

/** A possible next step of an event. Most events have one step. */
interface Step {
  readonly world: World;
  readonly done: boolean;
}

/** Refusals that say nothing about the tasks. */
const CHANGED_NOTHING = new Set([
  'STARTING',
  'SHUTTING_DOWN',
  'OVERLOADED',
  'TOO_MANY_WAITERS',
  'DISK_FULL',
  'STORE_FAILED',
]);

/**
 * Steps of each pass. A pass that has made a wrong choice early tries all orders of what follows. So the next one begins anew,
 * with other choices here and there, and knows the dead ends of those before.
 */
const STEPS: readonly number[] = Array.from({ length: 12 }, () => 800);
/** How often a later pass tries another event first than the most likely one. */
const OTHERS = 0.3;

export function linearize(history: readonly HistoryEvent[], setting: Setting): Verdict {
  return new Search(history, setting).run();
}

class Search {
  readonly #events: readonly HistoryEvent[];
  readonly #setting: Setting;
  readonly #done = new Set<HistoryEvent>();
  /** Dead ends: keys of the finished events and the world. */
  readonly #visited = new Set<string>();
  readonly #random = new SeededRandom(1);
  #pass = 0;
  #steps = 0;
  #mostSteps = 0;
  /** True if not all worlds were tried: then a search that finds nothing proves nothing. */
  #isCut = false;
  #furthest: readonly HistoryEvent[] = [];
  #stuckAt: readonly HistoryEvent[] = [];

  constructor(history: readonly HistoryEvent[], setting: Setting) {
    this.#events = inLikelyOrder(history, setting);
    this.#setting = {
      ...setting,
      tooManyWorlds: () => {
        this.#isCut = true;
      },
    };
  }

  run(): Verdict {
    for (const steps of STEPS) {
      this.#mostSteps = this.#steps + steps;
      this.#done.clear();
      if (this.#explain(new World(), 0)) return { kind: 'explained', steps: this.#steps };
      if (this.#steps > this.#mostSteps) this.#pass++;
      else if (this.#isCut) break;
      else return { kind: 'impossible', explained: this.#furthest, stuckAt: this.#stuckAt };
    }
    return { kind: 'undecided', steps: this.#steps };
  }

  #explain(reached: World, latestCall: number): boolean {
    if (this.#events.every((event) => this.#done.has(event) || event.outcome.kind === 'unknown')) return true;
    const candidates = this.#candidates(latestCall);
    const world = this.#soonest(reached, candidates);
    const silent = this.#silent(world, candidates);
    if (silent) {
      this.#done.add(silent);
      if (this.#explain(world, Math.max(latestCall, silent.calledSeq))) return true;
      this.#done.delete(silent);
      return false;
    }
    const key = this.#visited.size > 0 ? this.#key(world, latestCall) : undefined;
    if (key !== undefined && this.#visited.has(key)) return false;
    if (this.#done.size > this.#furthest.length) {
      this.#furthest = [...this.#done];
      this.#stuckAt = candidates;
    }
    for (const event of this.#inOrder(candidates)) {
      const called = Math.max(latestCall, event.calledSeq);
      for (const { world: after, done } of this.#stepsOf(world, event)) {
        if (this.#steps > this.#mostSteps) return false;
        if (done) this.#done.add(event);
        if (this.#explain(after, called)) return true;
        this.#done.delete(event);
      }
    }
    // Not all of it was tried.
    if (this.#steps > this.#mostSteps) return false;
    this.#visited.add(key ?? this.#key(world, latestCall));
    return false;
  }

  #inOrder(candidates: readonly HistoryEvent[]): readonly HistoryEvent[] {
    if (this.#pass === 0 || candidates.length < 2 || !this.#random.chance(OTHERS)) return candidates;
    const first = this.#random.pick(candidates);
    return [first, ...candidates.filter((event) => event !== first)];
  }

  /** The world at the time of the earliest call among the candidates, because no event can happen before. */
  #soonest(world: World, candidates: readonly HistoryEvent[]): World {
    const epochs = new Set(candidates.map(({ endedSeq }) => this.#setting.epochAt(endedSeq)));
    if (epochs.size !== 1 || !epochs.has(world.epoch)) return world;
    const first = Math.min(...candidates.map(({ calledAt }) => calledAt));
    return first > world.time ? world.at(first, world.epoch) : world;
  }

  /**
   * An event that is possible now and changes nothing. If some order explains the history, then some order with this event at
   * this place does, too. So it need not be tried later.
   */
  #silent(world: World, candidates: readonly HistoryEvent[]): HistoryEvent | undefined {
    return candidates.find((event) => {
      if (event.outcome.kind === 'unknown' || event.hungUp) return false;
      // A pause of what is paused already is one after a resume, too. So is a limit after the end of the same limit.
      if (event.call.kind === 'pause' && !event.call.isResume) return false;
      if (event.call.kind === 'limit' && event.call.maxLeased > 0) return false;
      if (candidates.some(({ outcome, endedSeq }) => outcome.kind === 'unknown' && endedSeq < event.calledSeq))
        return false;
      const [first, ...others] = this.#stepsOf(world, event);
      // A lease whose tasks were all taken away looks like one that got none. A request that was repeated after its window
      // looks like one within it. A refused reset may have reset nothing. All may change something, so their place in the order
      // matters.
      const isRead = !['lease', 'update', 'reset'].includes(event.call.kind);
      const onlyOne = others.length === 0 || isRead;
      return first?.done === true && first.world === world && onlyOne;
    });
  }

  /** Events that may be next: called before the end of any other open event, and not lost in an earlier crash. */
  #candidates(latestCall: number): HistoryEvent[] {
    const open = this.#events.filter((event) => !this.#done.has(event));
    let firstEnd = Number.POSITIVE_INFINITY;
    for (const { outcome, endedSeq } of open) {
      if (outcome.kind !== 'unknown' && endedSeq < firstEnd) firstEnd = endedSeq;
    }
    const candidates = open.filter(
      ({ calledSeq, endedSeq, outcome }) =>
        calledSeq < firstEnd && (outcome.kind !== 'unknown' || endedSeq > latestCall),
    );
    // Lost events come last, so that "it never took effect" is tried first.
    return [
      ...candidates.filter((event) => !this.#isLost(event)),
      ...candidates.filter((event) => this.#isLost(event)),
    ];
  }

  #isLost(event: HistoryEvent): boolean {
    return event.outcome.kind === 'unknown' && instantOf(event, this.#setting) === undefined;
  }

  #stepsOf(before: World, event: HistoryEvent): readonly Step[] {
    this.#steps++;
    const epoch = this.#setting.epochAt(event.endedSeq);
    const from = epoch > before.epoch ? event.calledAt : Math.max(before.time, event.calledAt);
    const span = { from, to: event.endedAt };
    if (span.from > span.to) return [];
    if (epoch === before.epoch) return stepsOf(before.at(from, epoch), event, span, this.#setting, before);
    // Tasks may have been shown by a read before the clock went back. Now they are not due any more.
    const lastLook = { from: before.time, to: this.#setting.endBefore(epoch) };
    return sweeps(before, before.queueNames, lastLook, this.#setting).flatMap((swept) =>
      stepsOf(swept.at(from, epoch), event, span, this.#setting, swept),
    );
  }

  #key(world: World, latestCall: number): string {
    const open = this.#events.filter((event) => !this.#done.has(event)).map(({ id }) => id);
    return `${latestCall} ${open.join()} ${world.key}`;
  }
}

/**
 * The order to try first. Most replies are sent in the order of the effects. Instants in replies decide if there are any.
 * Events with an unknown outcome come late.
 */
function inLikelyOrder(history: readonly HistoryEvent[], setting: Setting): HistoryEvent[] {
  const likely = new Map<HistoryEvent, number>();
  let soonest = Number.POSITIVE_INFINITY;
  let epoch = Number.POSITIVE_INFINITY;
  for (const event of history.toSorted((a, b) => b.endedSeq - a.endedSeq)) {
    if (setting.epochAt(event.endedSeq) < epoch) soonest = Number.POSITIVE_INFINITY;
    epoch = setting.epochAt(event.endedSeq);
    const known = instantOf(event, setting);
    soonest = Math.min(soonest, known ?? event.endedAt);
    likely.set(event, Math.max(event.calledAt, known ?? Math.min(soonest, event.endedAt)));
  }
  const at = (event: HistoryEvent): number => likely.get(event) ?? event.endedAt;
  const epochOf = (event: HistoryEvent): number => setting.epochAt(event.endedSeq);
  return history.toSorted((a, b) => epochOf(a) - epochOf(b) || at(a) - at(b) || a.endedSeq - b.endedSeq);
}

function stepsOf(world: World, event: HistoryEvent, span: Span, setting: Setting, unchanged: World): readonly Step[] {
  const { call, outcome } = event;
  const finished = (worlds: readonly World[]): Step[] => worlds.map((after) => ({ world: after, done: true }));
  if (outcome.kind === 'refused') {
    if (CHANGED_NOTHING.has(outcome.reason)) {
      const nothing = [{ world: unchanged, done: true }];
      // A reset is several updates, of which the later ones may be refused.
      return call.kind === 'reset' ? [...nothing, ...explainReset(world, as(event, call), span, setting)] : nothing;
    }
    if (call.kind === 'lease' && outcome.reason === 'CANCELLED') {
      return explainCancelled(world, as(event, call), span, setting);
    }
    return call.kind === 'update' ? finished(explainUpdate(world, as(event, call), span, setting)) : [];
  }
  switch (call.kind) {
    case 'update':
      return finished(explainUpdate(world, as(event, call), span, setting));
    case 'lease':
      if (event.hungUp) return explainCancelled(world, as(event, call), span, setting);
      return finished(explainLease(world, as(event, call), span, setting));
    case 'get':
    case 'peek':
      return outcome.kind === 'shown' ? finished(explainShown(world, as(event, call), outcome, span, setting)) : [];
    case 'ends':
      return outcome.kind === 'ended' ? finished(explainEnds(world, as(event, call), outcome, span, setting)) : [];
    case 'stats':
    case 'list':
      return outcome.kind === 'counts' ? finished(explainCounts(world, as(event, call), outcome, span, setting)) : [];
    case 'delete':
      return finished(explainDelete(world, as(event, call), span, setting));
    case 'reset':
      return explainReset(world, as(event, call), span, setting);
    case 'pause':
      return finished(explainPause(world, as(event, call), span));
    case 'limit':
      return finished(explainLimit(world, as(event, call), span));
    default:
      return call satisfies never;
  }
}

/** The event with the type of its call. */
const as = <C extends HistoryEvent['call']>(event: HistoryEvent, call: C): HistoryEvent<C> => ({ ...event, call });
