import type { QueueName } from '@taskmaster/proto';
import {
  ByteReader,
  ByteWriter,
  dueSince,
  type Instant,
  isLeased,
  type Pid,
  type QueueId,
  type TaskState,
  type Ticket,
} from '@taskmaster/server/domain';
import type { TaskChange } from '../domain/atom.ts';
import { AgeHistogram } from './age-histogram.ts';

/** From 2 on ages are counted from when tasks became due. */
const VERSION = 2;
const NO_PID = 0;
const WITH_PID = 1;

/** Before every PID. */
export const FIRST_PID = '' as Pid;
const FAR = Number.MAX_SAFE_INTEGER as Instant;

const writer = new ByteWriter();

/**
 * What must be known of a queue without reading its tasks: counts and bounds. This is the paper's replay-safe counter
 * (5.3): atoms are applied in the order of their tickets, and one that the loaded row already includes is ignored.
 *
 *  L1  `available + leased + delayed` is the number of the queue's tasks.
 *  L2  No available task has a PID below `readyFloor`; no hidden task shows before `dueFloor`. The floors let scans skip
 *      the tombstones that taken tasks left behind.
 *  L3  No task of the queue ever had a PID above `largestPid`.
 */
export class QueueLedger {
  readonly queueId: QueueId;
  /** Its strings may be exchanged for equal ones. */
  name: QueueName;
  available = 0;
  leased = 0;
  delayed = 0;
  /** Dequeued since the queue came into being. */
  completed = 0;
  largestPid: Pid | undefined;
  readyFloor: Pid = FIRST_PID;
  dueFloor: Instant = FAR;
  /** Of the last atom applied. */
  ticket = 0 as Ticket;
  #ages = new AgeHistogram();
  /** Atoms up to this one are in the row that was loaded. */
  #loadedTicket = 0;

  constructor(queueId: QueueId, name: QueueName) {
    this.queueId = queueId;
    this.name = name;
  }

  get size(): number {
    return this.available + this.leased + this.delayed;
  }

  get hidden(): number {
    return this.leased + this.delayed;
  }

  /** Since when the oldest task that is not delayed is due, or a little earlier. */
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
    if (visibility.kind === 'hidden') {
      if (visibility.until < this.dueFloor) this.dueFloor = visibility.until;
    } else if (change.pid < this.readyFloor) {
      this.readyFloor = change.pid;
    }
  }

  /** Moves all instants: the ledger comes from a node with another clock. */
  shift(byMs: number): void {
    if (this.dueFloor !== FAR) this.dueFloor = Math.max(0, this.dueFloor + byMs) as Instant;
    this.#ages.shift(byMs);
  }

  #age(change: TaskChange): void {
    const before = change.kind === 'enqueue' ? undefined : dueSince(change.before);
    const after = change.kind === 'dequeue' ? undefined : dueSince(change.after);
    // As it is with leases and completions of tasks that were never delayed.
    if (before === after) return;
    if (before !== undefined) this.#ages.remove(before);
    if (after !== undefined) this.#ages.add(after);
  }

  #count(state: TaskState, by: number): void {
    if (state.visibility.kind === 'available') this.available += by;
    else if (isLeased(state)) this.leased += by;
    else this.delayed += by;
  }

  /** The queue's row; a view that the next call reuses. */
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
    // Of a queue with one task they are the same: one string serves both.
    ledger.readyFloor = floor === ledger.largestPid ? ledger.largestPid : floor;
    ledger.dueFloor = from.number() as Instant;
    ledger.#ages = AgeHistogram.read(from);
    return ledger;
  }
}
