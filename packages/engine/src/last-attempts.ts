import type { QueueName } from '@taskmaster/proto';
import type { Instant, Ticket } from './domain/ids.ts';
import { dueOf, endsBy, isLeased, type TaskState } from './domain/task.ts';
import { deadLetterQueueOf, endsWithLease } from './operations/attempts.ts';
import type { Queue } from './queues/queue.ts';

const NO_TICKET = 0 as Ticket;
const NONE: readonly Queue[] = [];
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
const NEVER_YET = Number.NEGATIVE_INFINITY as Instant;
/** Time before the next search of a queue whose due tasks could not be shown. */
const FAILED_GAP_MS = 1000;
/**
 * With more queues of a group that had leases at the start, updates do not wait for dead tasks of these leases that go to
 * dead-letter queues named by tasks. The background search moves them later.
 */
const RECOVERED_AT_ONCE = 64;

interface Dying {
  /**
   * Number of the queue's tasks in their last attempt, including all leases from before the start, which may be, and of those
   * that must start, or have their signals, by an instant.
   */
  leases: number;
  /** None of them ends before this time. */
  floor: Instant;
  /** Leases with tokens up to this one were granted before the start. */
  readonly recovered: Ticket;
  /** Tasks that must start, or have their signals, and were enqueued up to this instant may have been there at the start. */
  readonly recoveredAt: Instant;
  /** Number of these leases and tasks that are left. */
  old: number;
  /** Names, in the same group, of the dead-letter queues of these tasks. */
  readonly targets: Set<string>;
}

/**
 * Queues with tasks in their last attempt. When the lease of a task in its last attempt expires, the task belongs into its
 * dead-letter queue. The contents of that queue must not depend on whether a request has looked at this queue since.
 */
export class LastAttempts {
  readonly #dying = new Map<Queue, Dying>();
  /** By group and name of the dead-letter queue: the queues that its tasks may come from. */
  readonly #sources = new Map<string, Map<string, Set<Queue>>>();
  /** By group: queues with leases from before the start. Their tasks may go to any queue of the group. */
  readonly #recovered = new Map<string, Set<Queue>>();
  /** Number of dead-letter queues that these tasks may go to, of all groups. */
  #targets = 0;
  /** No floor is lower than this. */
  #earliest = NEVER;

  /** Adds a queue that recovery or a transfer has loaded. Which of its leases are last attempts is not known. */
  adopt(queue: Queue, lastTicket: Ticket, now: Instant): void {
    const { leased, starting, dueFloor, name } = queue.ledger;
    if (leased + starting === 0) return;
    const dying = {
      leases: leased + starting,
      floor: dueFloor,
      recovered: lastTicket,
      recoveredAt: now,
      old: leased + starting,
      targets: new Set<string>(),
    };
    this.#dying.set(queue, dying);
    this.#earliest = earlier(this.#earliest, dueFloor);
    const ofGroup = this.#recovered.get(name.group);
    if (ofGroup) ofGroup.add(queue);
    else this.#recovered.set(name.group, new Set([queue]));
    this.#noteTarget(queue, dying, deadLetterQueueOf(name, queue.settings, undefined));
  }

  /** The settings of a queue have changed. Which of its present leases are last attempts is not known any more. */
  resettle(queue: Queue, lastTicket: Ticket, now: Instant): void {
    this.forget(queue);
    this.adopt(queue, lastTicket, now);
  }

  changed(queue: Queue, before: TaskState | undefined, after: TaskState | undefined): void {
    let dying = this.#dying.get(queue);
    const wasDying = before !== undefined && isDying(queue, before, dying);
    const becomesDying = after !== undefined && isDying(queue, after, dying);
    if (!wasDying && !becomesDying) return;
    if (!dying) {
      dying = { leases: 0, floor: NEVER, recovered: NO_TICKET, recoveredAt: NEVER_YET, old: 0, targets: new Set() };
      this.#dying.set(queue, dying);
    }
    dying.leases += Number(becomesDying) - Number(wasDying);
    const oldBefore = dying.old;
    dying.old +=
      Number(after !== undefined && isOld(after, dying)) - Number(before !== undefined && isOld(before, dying));
    if (oldBefore > 0 && dying.old <= 0) this.#forgetOld(queue);
    if (dying.leases <= 0) {
      this.forget(queue);
      return;
    }
    const due = after && dueOf(after);
    if (!becomesDying || after === undefined || due === undefined) return;
    dying.floor = earlier(dying.floor, due);
    this.#earliest = earlier(this.#earliest, dying.floor);
    this.#noteTarget(queue, dying, deadLetterQueueOf(queue.ledger.name, queue.settings, after));
  }

  /** Called after the tasks that were due at `now` are shown. */
  swept(queue: Queue, now: Instant): void {
    const dying = this.#dying.get(queue);
    if (dying && dying.floor <= now) dying.floor = queue.ledger.dueFloor;
  }

  /** Called after due tasks could not be shown. The queue is not searched again for a while. */
  failed(queue: Queue, now: Instant): void {
    const dying = this.#dying.get(queue);
    if (dying && dying.floor <= now) dying.floor = (now + FAILED_GAP_MS) as Instant;
  }

  forget(queue: Queue): void {
    const dying = this.#dying.get(queue);
    if (!dying) return;
    this.#dying.delete(queue);
    this.#forgetOld(queue);
    const { group } = queue.ledger.name;
    const ofGroup = this.#sources.get(group);
    for (const target of dying.targets) {
      const sources = ofGroup?.get(target);
      sources?.delete(queue);
      if (sources?.size === 0 && ofGroup?.delete(target)) this.#targets--;
    }
    if (ofGroup?.size === 0) this.#sources.delete(group);
  }

  /** Queues that may have dead tasks now that belong into this queue. */
  into({ group, name }: QueueName, now: Instant): readonly Queue[] {
    const ofGroup = this.#sources.get(group);
    if (!ofGroup) return NONE;
    const queues = new Set(ofGroup.get(name));
    const recovered = this.#recovered.get(group);
    if (recovered && recovered.size <= RECOVERED_AT_ONCE) for (const queue of recovered) queues.add(queue);
    return [...queues].filter((queue) => this.isDue(queue, now));
  }

  /** True if dead tasks may go to any queue of the group. */
  anyInto(group: string): boolean {
    return this.#sources.has(group);
  }

  /** There are no dead tasks before this instant. */
  get earliest(): Instant {
    return this.#earliest;
  }

  /** The queues that may have dead tasks now. */
  due(now: Instant): Queue[] {
    const due: Queue[] = [];
    if (now < this.#earliest) return due;
    let earliest = NEVER;
    for (const [queue, { floor }] of this.#dying) {
      if (this.isDue(queue, now)) due.push(queue);
      earliest = earlier(earliest, floor);
    }
    this.#earliest = earliest;
    return due;
  }

  /** As `due`, of a group. */
  dueIn(group: string, now: Instant): readonly Queue[] {
    const ofGroup = this.#sources.get(group);
    if (ofGroup === undefined || now < this.#earliest) return NONE;
    const due = new Set<Queue>();
    for (const sources of ofGroup.values()) for (const queue of sources) if (this.isDue(queue, now)) due.add(queue);
    return [...due];
  }

  /** Number of dead-letter queues, of a group or of all, that these tasks may go to. They need not exist. */
  targetCount(group?: string): number {
    return group === undefined ? this.#targets : (this.#sources.get(group)?.size ?? 0);
  }

  /** Names, in the queue's group, of the queues that its dead tasks may go to. */
  targetsOf(queue: Queue): Iterable<string> {
    return this.#dying.get(queue)?.targets ?? [];
  }

  /** True if the queue may have dead tasks now. */
  isDue(queue: Queue, now: Instant): boolean {
    return (this.#dying.get(queue)?.floor ?? NEVER) <= now && queue.ledger.dueFloor <= now;
  }

  #forgetOld(queue: Queue): void {
    const { group } = queue.ledger.name;
    const recovered = this.#recovered.get(group);
    recovered?.delete(queue);
    if (recovered?.size === 0) this.#recovered.delete(group);
  }

  #noteTarget(queue: Queue, dying: Dying, { group, name }: QueueName): void {
    if (dying.targets.has(name)) return;
    dying.targets.add(name);
    let ofGroup = this.#sources.get(group);
    if (!ofGroup) {
      ofGroup = new Map();
      this.#sources.set(group, ofGroup);
    }
    const sources = ofGroup.get(name);
    if (sources) sources.add(queue);
    else {
      ofGroup.set(name, new Set([queue]));
      this.#targets++;
    }
  }
}

const earlier = (a: Instant, b: Instant): Instant => (a < b ? a : b);

/** True if the lease was granted before the start, or the task that leaves its queue by itself may have been there. */
const isOld = (state: TaskState, { recovered, recoveredAt }: Dying): boolean =>
  isLeased(state) ? state.token <= recovered : endsBy(state) !== undefined && state.enqueuedAt <= recoveredAt;

const isDying = ({ settings }: Queue, state: TaskState, dying: Dying | undefined): boolean =>
  endsBy(state) !== undefined ||
  (isLeased(state) && (endsWithLease(state, settings) || (dying !== undefined && isOld(state, dying))));
