import type { QueueName } from '@taskmaster/proto';
import { type Instant, isLeased, type TaskState, type Ticket } from '@taskmaster/server/domain';
import { deadLetterQueueOf, isLastAttempt } from './operations/attempts.ts';
import type { Queue } from './queues/queue.ts';

const NO_TICKET = 0 as Ticket;
const NONE: readonly Queue[] = [];
const NEVER = Number.MAX_SAFE_INTEGER as Instant;
/** A queue whose due tasks cannot be shown is left alone for so long. */
const FAILED_GAP_MS = 1000;
/** With more queues of one group that the start found leased, what goes from them to queues named by tasks comes later. */
const RECOVERED_AT_ONCE = 64;

interface Dying {
  /** How many tasks of the queue are leased for the last time; with those leased before the start, which may be. */
  leases: number;
  /** None of these leases ends before. */
  floor: Instant;
  /** Leases up to this one were given before the start; so many of them are left. */
  readonly recovered: Ticket;
  old: number;
  /** Queues of the same group that the tasks go to, by name. */
  readonly targets: Set<string>;
}

/**
 * Queues with tasks whose last attempt is under way. When such a lease ends the task goes to another queue: what is in
 * that one must not depend on whether somebody looked at this one.
 */
export class LastAttempts {
  readonly #dying = new Map<Queue, Dying>();
  /** By group and name of the queue that the tasks go to. */
  readonly #sources = new Map<string, Map<string, Set<Queue>>>();
  /** By group: queues with leases from before the start, whose tasks may go anywhere. */
  readonly #recovered = new Map<string, Set<Queue>>();

  /** A queue that recovery or a transfer brought. Which of its leases are the last is not known. */
  adopt(queue: Queue, lastTicket: Ticket): void {
    const { leased, dueFloor, name } = queue.ledger;
    if (leased === 0) return;
    const dying = { leases: leased, floor: dueFloor, recovered: lastTicket, old: leased, targets: new Set<string>() };
    this.#dying.set(queue, dying);
    const ofGroup = this.#recovered.get(name.group);
    if (ofGroup) ofGroup.add(queue);
    else this.#recovered.set(name.group, new Set([queue]));
    this.#noteTarget(queue, dying, deadLetterQueueOf(name, undefined));
  }

  changed(queue: Queue, before: TaskState | undefined, after: TaskState | undefined): void {
    let dying = this.#dying.get(queue);
    const wasDying = before !== undefined && isDying(before, dying);
    const becomesDying = after !== undefined && isDying(after, dying);
    if (!wasDying && !becomesDying) return;
    if (!dying) {
      dying = { leases: 0, floor: NEVER, recovered: NO_TICKET, old: 0, targets: new Set() };
      this.#dying.set(queue, dying);
    }
    dying.leases += Number(becomesDying) - Number(wasDying);
    if (before && isOld(before, dying) && !(after && isOld(after, dying)) && --dying.old === 0) this.#forgetOld(queue);
    if (dying.leases <= 0) {
      this.forget(queue);
      return;
    }
    if (!becomesDying || after?.visibility.kind !== 'hidden') return;
    if (after.visibility.until < dying.floor) dying.floor = after.visibility.until;
    this.#noteTarget(queue, dying, deadLetterQueueOf(queue.ledger.name, after));
  }

  /** What was due by `now` was shown. */
  swept(queue: Queue, now: Instant): void {
    const dying = this.#dying.get(queue);
    if (dying && dying.floor <= now) dying.floor = queue.ledger.dueFloor;
  }

  /** What was due could not be shown: the queue stands as it is for a while. */
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
      if (sources?.size === 0) ofGroup?.delete(target);
    }
    if (ofGroup?.size === 0) this.#sources.delete(group);
  }

  /** Queues whose dead tasks may have to go to this one by now. */
  into({ group, name }: QueueName, now: Instant): readonly Queue[] {
    const ofGroup = this.#sources.get(group);
    if (!ofGroup) return NONE;
    const queues = new Set(ofGroup.get(name));
    const recovered = this.#recovered.get(group);
    if (recovered && recovered.size <= RECOVERED_AT_ONCE) for (const queue of recovered) queues.add(queue);
    return [...queues].filter((queue) => this.isDue(queue, now));
  }

  /** Whether dead tasks may go to a queue of that group at all. */
  anyInto(group: string): boolean {
    return this.#sources.has(group);
  }

  /** The first queues that may have dead tasks by now. */
  due(now: Instant, most: number): Queue[] {
    const due: Queue[] = [];
    for (const queue of this.#dying.keys()) {
      if (due.length === most) break;
      if (this.isDue(queue, now)) due.push(queue);
    }
    return due;
  }

  /** Names, within the queue's group, of those that its dead tasks may go to. */
  targetsOf(queue: Queue): Iterable<string> {
    return this.#dying.get(queue)?.targets ?? [];
  }

  /** Whether tasks of the queue may have died by now. */
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
    else ofGroup.set(name, new Set([queue]));
  }
}

/** Whether the lease is from before the start. */
const isOld = (state: TaskState, { recovered }: Dying): boolean => isLeased(state) && state.token <= recovered;

const isDying = (state: TaskState, dying: Dying | undefined): boolean =>
  isLeased(state) && (isLastAttempt(state) || (dying !== undefined && isOld(state, dying)));
