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
import { readBy, TIME, writtenBy } from './read-by.ts';
import { exactInstantOf, instantOf, type Setting, sweeps } from './rules.ts';
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
 * Steps of the passes. A pass that has made a wrong choice early tries all orders of what follows. So the next one begins anew,
 * with other choices here and there, and knows the dead ends of those before. The first ones jump, which explains nearly all
 * histories soon. The longer ones explain more than half of those that the short ones leave; a thorough pass hardly ever does.
 */
const JUMPING: readonly number[] = [400, 400, 400, 400, 1600, 1600, 1600, 1600, 1600];
const THOROUGH: readonly number[] = [800, 800, 800];
/** How often a later pass tries another event first than the most likely one. */
const OTHERS = 0.3;

export function linearize(history: readonly HistoryEvent[], setting: Setting): Verdict {
  return new Search(history, setting).run();
}

/** What a dead end depends on: names of queues, and others; see `readBy`. Undefined: it is no dead end. */
type Blame = ReadonlySet<string> | undefined;

/** What the history tells about an event, whatever the order. */
interface Facts {
  readonly event: HistoryEvent;
  /** False: its outcome is unknown, and no reply tells that it took effect. */
  readonly isNeeded: boolean;
  /** The outcome is unknown, and so is when it took effect, if it did. */
  readonly isLost: boolean;
  readonly epoch: number;
  /** The earliest and the latest instant at which it can have taken effect. */
  readonly from: number;
  readonly to: number;
}

class Search {
  readonly #events: readonly HistoryEvent[];
  readonly #facts: readonly Facts[];
  readonly #needed: ReadonlySet<HistoryEvent>;
  readonly #setting: Setting;
  /** One for all passes: the keys of its worlds are not those of another one. */
  readonly #beginning = new World();
  readonly #done = new Set<HistoryEvent>();
  /** By their identities. */
  readonly #worlds = new Map<string, World>();
  readonly #known = new Map<World, Map<HistoryEvent, readonly Step[]>>();
  /** Dead ends, by the keys of the finished events and the world. */
  readonly #visited = new Map<string, ReadonlySet<string>>();
  readonly #random = new SeededRandom(1);
  /**
   * True: a dead end is left at the latest step that has to do with it, and the orders of the others are not tried again. This
   * may miss an explanation, so thorough passes decide whether there is none.
   */
  #jumps = true;
  #pass = 0;
  #steps = 0;
  #mostSteps = 0;
  /** True if not all worlds were tried: then a search that finds nothing proves nothing. */
  #isCut = false;
  #furthest: readonly HistoryEvent[] = [];
  #stuckAt: readonly HistoryEvent[] = [];

  constructor(history: readonly HistoryEvent[], setting: Setting) {
    this.#events = inLikelyOrder(history, setting);
    this.#facts = this.#events.map((event) => {
      const exact = exactInstantOf(event, setting);
      const isUnknown = event.outcome.kind === 'unknown';
      return {
        event,
        isNeeded: !isUnknown || exact !== undefined,
        isLost: isUnknown && instantOf(event, setting) === undefined,
        epoch: setting.epochAt(event.endedSeq),
        from: exact ?? event.calledAt,
        to: exact ?? event.endedAt,
      };
    });
    this.#needed = new Set(this.#facts.flatMap(({ event, isNeeded }) => (isNeeded ? event : [])));
    this.#setting = {
      ...setting,
      tooManyWorlds: () => {
        this.#isCut = true;
      },
    };
  }

  run(): Verdict {
    for (const steps of JUMPING) {
      const isExplained = this.#explainIn(steps);
      if (isExplained) return { kind: 'explained', steps: this.#steps };
      if (isExplained === false) break;
    }
    this.#jumps = false;
    this.#visited.clear();
    for (const steps of THOROUGH) {
      const isExplained = this.#explainIn(steps);
      if (isExplained) return { kind: 'explained', steps: this.#steps };
      if (isExplained === undefined) continue;
      if (this.#isCut) break;
      return { kind: 'impossible', explained: this.#furthest, stuckAt: this.#stuckAt };
    }
    return { kind: 'undecided', steps: this.#steps };
  }

  /** One pass. Undefined: its steps have not sufficed. */
  #explainIn(steps: number): boolean | undefined {
    this.#mostSteps = this.#steps + steps;
    this.#done.clear();
    if (this.#explain(this.#beginning, 0) === undefined) return true;
    if (this.#steps <= this.#mostSteps) return false;
    this.#pass++;
    return undefined;
  }

  #explain(reached: World, latestCall: number): Blame {
    if (this.#facts.every(({ event, isNeeded }) => !isNeeded || this.#done.has(event))) return undefined;
    const candidates = this.#candidates(latestCall);
    const world = this.#same(this.#soonest(reached, candidates));
    const tried = new Map<HistoryEvent, readonly Step[]>();
    const stepsOf = (event: HistoryEvent): readonly Step[] => {
      const steps = tried.get(event) ?? this.#stepsOf(world, event);
      tried.set(event, steps);
      return steps;
    };
    const silent = this.#silent(world, candidates, stepsOf);
    if (silent) {
      this.#done.add(silent);
      const below = this.#explain(world, Math.max(latestCall, silent.calledSeq));
      if (below !== undefined) this.#done.delete(silent);
      return below;
    }
    const key = this.#visited.size > 0 ? this.#key(world, latestCall) : undefined;
    const known = key === undefined ? undefined : this.#visited.get(key);
    if (known !== undefined) return known;
    if (this.#done.size > this.#furthest.length) {
      this.#furthest = [...this.#done];
      this.#stuckAt = candidates;
    }
    const blame = this.#explainNext(world, latestCall, this.#inOrder(candidates), stepsOf);
    // Without steps left not all of it was tried.
    if (blame !== undefined && this.#steps <= this.#mostSteps)
      this.#visited.set(key ?? this.#key(world, latestCall), blame);
    return blame;
  }

  #explainNext(
    world: World,
    latestCall: number,
    candidates: readonly HistoryEvent[],
    stepsOf: (event: HistoryEvent) => readonly Step[],
  ): Blame {
    const blame = new Set<string>();
    /** Set: only events that may be left out can help, and only if they change some of this. */
    let wanted: Blame;
    for (const event of candidates) {
      if (wanted !== undefined && !this.#mayHelp(event, world, wanted)) continue;
      const called = Math.max(latestCall, event.calledSeq);
      for (const { world: after, done } of stepsOf(event)) {
        if (this.#steps > this.#mostSteps) return blame;
        if (done) this.#done.add(event);
        const below = this.#explain(after, called);
        if (below === undefined) return undefined;
        this.#done.delete(event);
        if (!this.#jumps) continue;
        for (const one of below) blame.add(one);
        const raisesTime = after.time > world.time && below.has(TIME);
        if (!raisesTime && !writtenBy(event, world).some((one) => below.has(one))) {
          wanted = below;
          break;
        }
      }
      if (this.#jumps && wanted === undefined) for (const one of readBy(event, world)) blame.add(one);
    }
    return blame;
  }

  /** Whether an event that may have had no effect changes something of this if it had one. */
  #mayHelp(event: HistoryEvent, world: World, wanted: ReadonlySet<string>): boolean {
    return !this.#needed.has(event) && writtenBy(event, world).some((one) => wanted.has(one));
  }

  #inOrder(candidates: readonly HistoryEvent[]): readonly HistoryEvent[] {
    if (this.#pass === 0 || candidates.length < 2 || !this.#random.chance(OTHERS)) return candidates;
    const first = this.#random.pick(candidates);
    return [first, ...candidates.filter((event) => event !== first)];
  }

  /** One world for all that are equal. */
  #same(world: World): World {
    const { identity } = world;
    const same = this.#worlds.get(identity) ?? world;
    this.#worlds.set(identity, same);
    return same;
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
  #silent(
    world: World,
    candidates: readonly HistoryEvent[],
    stepsOf: (event: HistoryEvent) => readonly Step[],
  ): HistoryEvent | undefined {
    return candidates.find((event) => {
      if (event.outcome.kind === 'unknown' || event.hungUp) return false;
      // A pause of what is paused already is one after a resume, too. So is a limit after the end of the same limit.
      if (event.call.kind === 'pause' && !event.call.isResume) return false;
      if (event.call.kind === 'limit' && event.call.maxLeased > 0) return false;
      if (candidates.some(({ outcome, endedSeq }) => outcome.kind === 'unknown' && endedSeq < event.calledSeq))
        return false;
      const [first, ...others] = stepsOf(event);
      // A lease whose tasks were all taken away looks like one that got none. A request that was repeated after its window
      // looks like one within it. A refused reset may have reset nothing. All may change something, so their place in the order
      // matters.
      const isRead = !['lease', 'update', 'reset'].includes(event.call.kind);
      const onlyOne = others.length === 0 || isRead;
      return first?.done === true && first.world === world && onlyOne;
    });
  }

  /**
   * Events that may be next: called before the end of any other open event, not after the latest instant of one, and not lost in
   * an earlier crash.
   */
  #candidates(latestCall: number): HistoryEvent[] {
    const open = this.#facts.filter(({ event }) => !this.#done.has(event));
    let firstEnd = Number.POSITIVE_INFINITY;
    const latest = new Map<number, number>();
    for (const { event, isNeeded, epoch, to } of open) {
      if (!isNeeded) continue;
      if (event.endedSeq < firstEnd) firstEnd = event.endedSeq;
      if (to < (latest.get(epoch) ?? Number.POSITIVE_INFINITY)) latest.set(epoch, to);
    }
    const candidates = open.filter(
      ({ event: { calledSeq, endedSeq }, isNeeded, epoch, from }) =>
        calledSeq < firstEnd &&
        (isNeeded || endedSeq > latestCall) &&
        from <= (latest.get(epoch) ?? Number.POSITIVE_INFINITY),
    );
    // Lost events come last, so that "it never took effect" is tried first.
    return [...candidates.filter(({ isLost }) => !isLost), ...candidates.filter(({ isLost }) => isLost)].map(
      ({ event }) => event,
    );
  }

  /** Passes come to many worlds again. */
  #stepsOf(world: World, event: HistoryEvent): readonly Step[] {
    this.#steps++;
    const known = this.#known.get(world) ?? new Map<HistoryEvent, readonly Step[]>();
    this.#known.set(world, known);
    const steps = known.get(event) ?? this.#findSteps(world, event);
    known.set(event, steps);
    return steps;
  }

  #findSteps(before: World, event: HistoryEvent): readonly Step[] {
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
