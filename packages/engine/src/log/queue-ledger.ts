import type { QueueName } from '@taskmaster/proto';
import type { TaskChange } from '../domain/atom.ts';
import { ByteReader, ByteWriter } from '../domain/bytes.ts';
import type { Instant, Pid, QueueId, Ticket } from '../domain/ids.ts';
import { dueOf, dueSince, endsBy, isLeased, isParked, laneOf, type TaskState } from '../domain/task.ts';
import { AgeHistogram } from './age-histogram.ts';

/** From version 2 on, the age of a task counts from when it became due. */
const VERSION = 2;
const NO_PID = 0;
const WITH_PID = 1;

/** Sorts before every PID. */
export const FIRST_PID = '' as Pid;
const FAR = Number.MAX_SAFE_INTEGER as Instant;

const writer = new ByteWriter();

/** How many tasks of a queue have one kind. */
export interface KindCounts {
  available: number;
  leased: number;
  delayed: number;
}

const NO_KINDS: readonly never[] = [];

/**
 * The counts and bounds of a queue, known without reading its tasks. This is the paper's replay-safe counter (5.3): atoms are
 * applied in the order of their tickets, and an atom that the loaded row already includes is ignored.
 *
 *  L1  `available + leased + delayed` is the number of the queue's tasks.
 *  L2  No available task has a PID below `readyFloor`; no task is due before `dueFloor`. The floors let scans skip
 *      the tombstones that taken tasks left behind.
 *  L3  No task of the queue ever had a PID above `largestPid`.
 */
export class QueueLedger {
  readonly queueId: QueueId;
  /** May be replaced by an equal name, to share strings. */
  name: QueueName;
  available = 0;
  leased = 0;
  delayed = 0;
  /**
   * Number of these tasks that leave the queue at some instant unless they have started. Rows of earlier releases do not have
   * it.
   */
  starting = 0;
  /** Number of the delayed tasks that are parked. Rows of earlier releases do not have it. */
  waiting = 0;
  /**
   * Number of its tasks with a limit key or a kind, and of those that are available. Rows of earlier releases do not have them.
   */
  keyed = 0;
  keyedReady = 0;
  /** Its tasks with kinds, by kind. Undefined: there are none. Rows of earlier releases do not have them. */
  kinds: Map<string, KindCounts> | undefined;
  /**
   * Payload of its tasks, in bytes. Rows of earlier releases do not have it: their tasks do not count, and the sum does not fall
   * below zero when they go.
   */
  bytes = 0;
  /** Number of tasks completed since the queue was created. */
  completed = 0;
  largestPid: Pid | undefined;
  readyFloor: Pid = FIRST_PID;
  dueFloor: Instant = FAR;
  /** Ticket of the last applied atom. */
  ticket = 0 as Ticket;
  #ages = new AgeHistogram();
  /** The loaded row includes atoms up to this ticket. */
  #loadedTicket = 0;

  constructor(queueId: QueueId, name: QueueName) {
    this.queueId = queueId;
    this.name = name;
  }

  /** Available tasks without a limit key and a kind: those in the head of the queue. */
  get plain(): number {
    return this.available - this.keyedReady;
  }

  get size(): number {
    return this.available + this.leased + this.delayed;
  }

  get hidden(): number {
    return this.leased + this.delayed;
  }

  /** True if some of its tasks are due some day. */
  get hasDue(): boolean {
    return this.hidden > 0 || this.starting > 0;
  }

  /** When the oldest task that is not delayed became due, or slightly earlier; undefined without one. */
  get oldest(): Instant | undefined {
    return this.#ages.oldest;
  }

  apply(ticket: Ticket, change: TaskChange): void {
    if (ticket <= this.#loadedTicket) return;
    this.ticket = ticket;
    if (change.kind === 'enqueue') {
      if (this.largestPid === undefined || change.pid > this.largestPid) this.largestPid = change.pid;
    } else {
      this.#count(change.before, -1);
    }
    this.#age(change);
    if (change.kind === 'dequeue') {
      if (change.completed) this.completed++;
      return;
    }
    this.#count(change.after, 1);
    const { visibility } = change.after;
    const due = dueOf(change.after);
    if (due !== undefined && due < this.dueFloor) this.dueFloor = due;
    if (visibility.kind === 'available' && change.pid < this.readyFloor) this.readyFloor = change.pid;
  }

  /** Moves all instants by `byMs` milliseconds, because the ledger comes from a node with another clock. */
  shift(byMs: number): void {
    if (this.dueFloor !== FAR) this.dueFloor = Math.max(0, this.dueFloor + byMs) as Instant;
    this.#ages.shift(byMs);
  }

  #age(change: TaskChange): void {
    const before = change.kind === 'enqueue' ? undefined : dueSince(change.before);
    const after = change.kind === 'dequeue' ? undefined : dueSince(change.after);
    // The usual case for a lease: it does not change the age.
    if (before === after) return;
    if (before !== undefined) this.#ages.remove(before);
    if (after !== undefined) this.#ages.add(after);
  }

  #count(state: TaskState, by: number): void {
    if (state.visibility.kind === 'available') this.available += by;
    else if (isLeased(state)) this.leased += by;
    else this.delayed += by;
    if (state.history !== undefined) {
      if (endsBy(state) !== undefined) this.starting += by;
      if (isParked(state)) this.waiting += by;
      const lane = laneOf(state);
      if (lane !== undefined) {
        this.keyed += by;
        if (state.visibility.kind === 'available') this.keyedReady += by;
        if (lane.kind) this.#countKind(lane.kind, state, by);
      }
    }
    this.bytes = Math.max(0, this.bytes + by * state.dataBytes);
  }

  #countKind(kind: string, state: TaskState, by: number): void {
    this.kinds ??= new Map();
    const counts = this.kinds.get(kind) ?? { available: 0, leased: 0, delayed: 0 };
    this.kinds.set(kind, counts);
    counts[state.visibility.kind === 'available' ? 'available' : isLeased(state) ? 'leased' : 'delayed'] += by;
    if (counts.available + counts.leased + counts.delayed > 0) return;
    this.kinds.delete(kind);
    if (this.kinds.size === 0) this.kinds = undefined;
  }

  /** Encodes the queue's row as a view into a buffer that the next call reuses. */
  encode(): Uint8Array {
    writer.byte(VERSION);
    writer.number(this.queueId);
    writer.utf8(this.name.group);
    writer.utf8(this.name.name);
    writer.number(this.ticket);
    writer.number(this.available);
    writer.number(this.leased);
    writer.number(this.delayed);
    writer.number(this.completed);
    writer.byte(this.largestPid === undefined ? NO_PID : WITH_PID);
    if (this.largestPid !== undefined) writer.latin1(this.largestPid);
    writer.latin1(this.readyFloor);
    writer.number(this.dueFloor);
    this.#ages.write(writer);
    writer.number(this.bytes);
    writer.number(this.starting);
    writer.number(this.waiting);
    writer.number(this.keyed);
    writer.number(this.keyedReady);
    writer.number(this.kinds?.size ?? 0);
    for (const [kind, { available, leased, delayed }] of this.kinds ?? NO_KINDS) {
      writer.utf8(kind);
      writer.number(available);
      writer.number(leased);
      writer.number(delayed);
    }
    return writer.view();
  }

  static decode(bytes: Uint8Array): QueueLedger {
    const from = new ByteReader(bytes);
    from.version(VERSION, 'queue row');
    const ledger = new QueueLedger(from.number() as QueueId, { group: from.utf8(), name: from.utf8() });
    ledger.ticket = from.number() as Ticket;
    ledger.#loadedTicket = ledger.ticket;
    ledger.available = from.number();
    ledger.leased = from.number();
    ledger.delayed = from.number();
    ledger.completed = from.number();
    if (from.byte() === WITH_PID) ledger.largestPid = from.latin1() as Pid;
    const floor = from.latin1() as Pid;
    // They are equal in a queue with one task: share the string.
    ledger.readyFloor = floor === ledger.largestPid ? ledger.largestPid : floor;
    ledger.dueFloor = from.number() as Instant;
    ledger.#ages = AgeHistogram.read(from);
    ledger.bytes = from.atEnd ? 0 : from.number();
    ledger.starting = from.atEnd ? 0 : from.number();
    ledger.waiting = from.atEnd ? 0 : from.number();
    ledger.keyed = from.atEnd ? 0 : from.number();
    ledger.keyedReady = from.atEnd ? 0 : from.number();
    for (let left = from.atEnd ? 0 : from.number(); left > 0; left--) {
      ledger.kinds ??= new Map();
      ledger.kinds.set(from.utf8(), { available: from.number(), leased: from.number(), delayed: from.number() });
    }
    return ledger;
  }
}
