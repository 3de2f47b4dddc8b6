import { NOTHING_CHANGED } from '@taskmaster/proto';
import type { ApplyAtom } from '../domain/atom.ts';
import type { CallSignal } from '../domain/call-signal.ts';
import {
  type EventPage,
  type EventsOfGroup,
  encodeEvents,
  type GroupEvent,
  OLDEST,
  type ReadEventsCommand,
} from '../domain/events.ts';
import type { Instant, PartitionId, PartitionLife, Ticket } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import { RingBuffer } from '../domain/ring-buffer.ts';
import { Deadlines } from '../leasing/deadlines.ts';
import type { EventfulAtom } from '../log/replay.ts';
import type { PlannedAtom } from '../planned-atom.ts';
import type { Clock } from '../ports/clock.ts';
import { sleep } from '../ports/sleep.ts';
import type { Queue } from '../queues/queue.ts';
import { EventReader } from './event-reader.ts';
import { eventsIn } from './events-in.ts';
import { WatchedGroup } from './watched-group.ts';

/** How long the events of a group are kept after its last read, in ms. */
const IDLE_MS = 10 * 60 * 1000;
/** How long the log of a partition with readers is kept after a checkpoint, in ms. */
const LOG_MS = 2 * 60 * 1000;
/** Groups whose events are kept. Above it those that were read longest ago make room. */
const MOST_GROUPS = 10_000;
/** Readers that look before other calls have their turn, and events that they compare with their filters. */
const LOOKS_AT_ONCE = 500;
const EVENTS_AT_ONCE = 2_000;
const RETRY_MS = 1_000;
/** Before the first atom of any partition. */
const BEFORE_ALL = -1 as Ticket;
const NONE: readonly never[] = [];

export interface EventLogDeps {
  readonly clock: Clock;
  /** Memory for events. */
  readonly maxBytes: number;
  /** Limit of the readers that wait. */
  readonly maxReaders: number;
  /** See `EngineDeps`. */
  readonly tellsAll: boolean;
}

interface LogPartition {
  readonly id: PartitionId;
  readonly life: PartitionLife;
  readonly lastTicket: Ticket;
}

/** A partition whose events are read. */
interface ReadPartition extends LogPartition {
  /** Commits an atom that says which groups are read. */
  readonly mark: () => void;
  /** Resolves when all that is committed is durable. */
  readonly durable: () => Promise<void>;
}

/** What an event log knows of a partition with readers. */
interface WatchedPartition {
  readonly groups: Map<string, WatchedGroup>;
  /** True: the next atom names all groups. The log in which others named them may be gone soon, or a group has no readers now. */
  isUnnamed: boolean;
  /** Groups with readers that no atom has named. */
  readonly unnamed: Set<WatchedGroup>;
  /** By group, what the next atom is to tell though it does not do it. */
  readonly told: Map<string, GroupEvent[]>;
  /** No group has been without readers for long enough to be dropped before. */
  idleAt: Instant;
  /** All atoms up to this one are durable. */
  durable: Ticket;
  /** Entries of the log up to this one may go. */
  trimTo: Ticket;
  /** Checkpoints, oldest first. */
  readonly checkpoints: { readonly ticket: Ticket; readonly logBytes: number; readonly at: Instant }[];
}

/**
 * What has happened in groups that have readers. Without readers it costs a look into an empty map for each atom.
 *
 *  V1  From its first reader on, the atoms of a partition say in their log entries what they do in the groups that are read. So
 *      a restart, a hand-off and this log have the same events. The first read of a group commits an atom that says so, and so
 *      does the last moment before a hand-off. Later atoms without events in a group name it only after a checkpoint, or after
 *      another group has no readers any more. A group has no events behind a gap: its readers are told.
 *  V2  A reader gets only what is durable, so that no other atom ever has a ticket that it was told.
 *  V3  A reader that waits holds no events, and a commit waits for no reader: readers look in slices between other calls.
 */
export class EventLog {
  readonly #deps: EventLogDeps;
  readonly #partitions = new Map<PartitionId, WatchedPartition>();
  readonly #readers = new Set<EventReader>();
  readonly #deadlines: Deadlines<EventReader>;
  /** The group of each atom with events, oldest atoms first. Groups that were dropped have no atoms any more. */
  readonly #order = new RingBuffer<WatchedGroup>();
  /** How many of these places are of dropped groups. */
  #stale = 0;
  #bytes = 0;
  #groups = 0;
  /** Number of atoms that were committed, and of those that are durable. */
  #committed = 0;
  #applied = 0;
  /** Atoms of partitions with readers that are not durable. `groups`: those in which they have events. */
  readonly #unapplied = new RingBuffer<{
    readonly number: number;
    readonly at: WatchedPartition;
    readonly ticket: Ticket;
    readonly groups: readonly WatchedGroup[];
  }>();
  /** Groups whose readers are to look. */
  readonly #changed = new Set<WatchedGroup>();
  #isLooking = false;

  constructor(deps: EventLogDeps) {
    this.#deps = deps;
    this.#deadlines = new Deadlines(deps.clock, (reader) => reader.end(this.#durable(reader.group)));
  }

  /** Number of readers that wait. */
  get readers(): number {
    return this.#readers.size;
  }

  /** True while a group has readers, or had one a while ago. */
  get isWatching(): boolean {
    return this.#groups > 0;
  }

  /** Whether a group of the partition has readers, or had one a while ago. */
  isRead(id: PartitionId): boolean {
    return this.#partitions.has(id);
  }

  watches({ partition, ledger }: Pick<Queue, 'partition' | 'ledger'>): boolean {
    return this.#partitions.get(partition)?.groups.has(ledger.name.group) ?? false;
  }

  /** What an atom does in groups that are read. Undefined: no group of its partition is. */
  eventsOf(plan: PlannedAtom, partition: LogPartition): ApplyAtom['events'] {
    const { tellsAll } = this.#deps;
    if (tellsAll) this.#watchGroupsOf(plan, partition);
    const watched = this.#partitions.get(plan.partition);
    if (watched === undefined) return undefined;
    this.#dropIdle(plan.partition, watched, plan.at);
    if (watched.groups.size === 0) return undefined;
    const found = eventsIn(plan, (group) => watched.groups.has(group), tellsAll);
    for (const [group, events] of watched.told) found.set(group, [...events, ...(found.get(group) ?? NONE)]);
    const { isUnnamed: isWhole, unnamed } = watched;
    for (const { group } of isWhole ? watched.groups.values() : unnamed) {
      if (!found.has(group)) found.set(group, []);
    }
    const groups: EventsOfGroup[] = [];
    for (const [group, events] of found) groups.push({ group, events, encoded: encodeEvents(events) });
    return { isWhole, groups };
  }

  /** The next atom of the partition tells this, too, which no atom does. False: nobody reads the group. */
  tell(id: PartitionId, group: string, event: GroupEvent): boolean {
    const watched = this.#partitions.get(id);
    if (!watched?.groups.has(group)) return false;
    const events = watched.told.get(group);
    if (events === undefined) watched.told.set(group, [event]);
    else events.push(event);
    return true;
  }

  /** An atom was committed. Call it for all, in order. */
  committed({ partition, ticket, events }: ApplyAtom): void {
    this.#committed++;
    const watched = events && this.#partitions.get(partition);
    if (watched === undefined) return;
    // To clear what is empty costs an allocation. Bench row `controls`.
    if (watched.told.size > 0) watched.told.clear();
    watched.isUnnamed = false;
    if (watched.unnamed.size > 0) watched.unnamed.clear();
    const groups = this.#note(watched, ticket, events?.groups ?? NONE);
    this.#unapplied.push({ number: this.#committed, at: watched, ticket, groups });
  }

  /** The next `atoms` atoms are durable. */
  applied(atoms: number): void {
    this.#applied += atoms;
    for (;;) {
      const first = this.#unapplied.first;
      if (first === undefined || first.number > this.#applied) return;
      this.#unapplied.shift();
      first.at.durable = first.ticket;
      for (const group of first.groups) if (group.readers.size > 0) this.#lookSoon(group);
    }
  }

  /**
   * Reads events, or waits for one. Rejects with a `Refusal`. Undefined: the partition was given up meanwhile.
   */
  async read(
    command: ReadEventsCommand,
    partition: ReadPartition,
    signal: CallSignal | undefined,
  ): Promise<EventPage | undefined> {
    const { id, life, lastTicket } = partition;
    const now = { partition: id, life, ticket: lastTicket, count: 0 };
    const asked = command.after === OLDEST ? { ...now, ticket: BEFORE_ALL } : (command.after ?? now);
    if (asked.partition !== id) throw noPosition();
    // Of an earlier life of the partition, or of changes that a crash has taken back. What was then is lost.
    const isLost = asked.life !== life || asked.ticket > lastTicket;
    const after = isLost ? { ...asked, ticket: BEFORE_ALL } : asked;
    const { clock, maxReaders } = this.#deps;
    const watched = this.#watch(id, lastTicket);
    const group = this.#groupOf(watched, command.group, partition);
    await partition.durable();
    if (watched.groups.get(command.group) !== group) return undefined;
    group.readAt = clock.now();
    let page = group.page(after, command, watched.durable);
    while (page.isCut && page.count === 0) {
      await sleep(clock, 0);
      if (watched.groups.get(command.group) !== group) return undefined;
      if (signal?.aborted) throw cancelled();
      page = group.page(page.position, command, watched.durable);
    }
    if (page.count > 0 || command.waitMs === 0) return page;
    if (this.#readers.size >= maxReaders) throw tooMany(`${maxReaders} calls wait for events already`, maxReaders);
    if (signal?.aborted) throw cancelled();
    const deadline = (clock.now() + command.waitMs) as Instant;
    const reader = new EventReader({ command, group, from: page.position, deadline }, signal, cancelled, this.#leave);
    this.#readers.add(reader);
    group.readers.add(reader);
    this.#deadlines.add(reader);
    return reader.answered;
  }

  /** The log of the partition is sent to another node, which has to know all groups with readers. */
  nameAll(id: PartitionId): void {
    const watched = this.#partitions.get(id);
    if (watched !== undefined) watched.isUnnamed = true;
  }

  /** Takes over what a log or a transfer says about a partition. Only atoms without a gap behind them count. */
  adopt(partition: LogPartition, eventful: readonly EventfulAtom[]): void {
    const { id, lastTicket } = partition;
    const last = eventful.at(-1);
    if (last === undefined || last.ticket !== lastTicket) return;
    let first = eventful.length - 1;
    while (first > 0 && eventful[first - 1]?.ticket === (eventful[first]?.ticket ?? 0) - 1) first--;
    const watched = this.#watch(id, lastTicket);
    for (const { ticket, isWhole, groups } of eventful.slice(first)) {
      const before = (ticket - 1) as Ticket;
      for (const { group } of groups) {
        if (!watched.groups.has(group)) {
          this.#add(watched, new WatchedGroup(group, partition, before, this.#deps.clock.now()));
        }
      }
      if (isWhole) {
        const named = new Set(groups.map(({ group }) => group));
        for (const group of [...watched.groups.values()]) if (!named.has(group.group)) this.#drop(watched, group);
      }
      this.#note(watched, ticket, groups);
    }
    if (watched.groups.size === 0) this.#partitions.delete(id);
    for (const { since } of watched.groups.values()) if (since < watched.trimTo) watched.trimTo = since;
  }

  /** A checkpoint covers the log up to the ticket. Returns up to where it may be trimmed: readers may still need the rest. */
  trimTo(id: PartitionId, lastTicket: Ticket, logBytes: number): Ticket {
    const watched = this.#partitions.get(id);
    if (watched === undefined) return lastTicket;
    const { clock, maxBytes } = this.#deps;
    const now = clock.now();
    const { checkpoints } = watched;
    checkpoints.push({ ticket: lastTicket, logBytes, at: now });
    watched.isUnnamed = true;
    const isOver = ({ at, logBytes: before }: (typeof checkpoints)[number]): boolean =>
      now - at > LOG_MS || logBytes - before > maxBytes;
    for (let first = checkpoints[0]; first !== undefined && isOver(first); first = checkpoints[0]) {
      watched.trimTo = first.ticket;
      checkpoints.shift();
    }
    return watched.trimTo;
  }

  /** Forgets a partition that this node has given up. Its readers go on at the new holder, behind all that happened here. */
  abandon(id: PartitionId): void {
    const watched = this.#partitions.get(id);
    if (watched === undefined) return;
    this.#dismiss(watched);
    for (const group of [...watched.groups.values()]) this.#drop(watched, group);
    this.#partitions.delete(id);
  }

  /** Answers all that wait. */
  dismiss(): void {
    for (const watched of this.#partitions.values()) this.#dismiss(watched);
  }

  #dismiss({ groups, durable }: WatchedPartition): void {
    for (const group of groups.values()) for (const reader of group.readers) reader.end(durable);
  }

  readonly #leave = (reader: EventReader): void => {
    this.#readers.delete(reader);
    this.#deadlines.remove(reader);
    reader.group.readers.delete(reader);
    reader.group.readAt = this.#deps.clock.now();
  };

  /** The last durable ticket of the partition of a group that has readers. */
  #durable({ partition, since }: WatchedGroup): Ticket {
    return this.#partitions.get(partition)?.durable ?? since;
  }

  #watch(id: PartitionId, lastTicket: Ticket): WatchedPartition {
    let watched = this.#partitions.get(id);
    if (watched === undefined) {
      const idleAt = (this.#deps.clock.now() + IDLE_MS) as Instant;
      const names = { groups: new Map(), isUnnamed: true, unnamed: new Set<WatchedGroup>(), told: new Map() };
      watched = { ...names, idleAt, durable: lastTicket, trimTo: lastTicket, checkpoints: [] };
      this.#partitions.set(id, watched);
    }
    return watched;
  }

  /** The group, which is read from now on. */
  #groupOf(watched: WatchedPartition, name: string, partition: ReadPartition): WatchedGroup {
    const known = watched.groups.get(name);
    if (known !== undefined) return known;
    if (!this.#hasRoom()) {
      throw tooMany(`readers wait for events of ${MOST_GROUPS} groups already`, MOST_GROUPS);
    }
    const group = new WatchedGroup(name, partition, partition.lastTicket, this.#deps.clock.now());
    this.#add(watched, group);
    partition.mark();
    return group;
  }

  /** The groups that an atom changes are kept as if they were read. */
  #watchGroupsOf({ partition: id, changes, at }: PlannedAtom, partition: LogPartition): void {
    const watched = this.#watch(id, partition.lastTicket);
    for (const { queue } of changes) {
      const { group } = queue.ledger.name;
      if (watched.groups.has(group) || !this.#hasRoom()) continue;
      this.#add(watched, new WatchedGroup(group, partition, partition.lastTicket, at));
    }
  }

  #hasRoom(): boolean {
    if (this.#groups >= MOST_GROUPS) this.#dropLongestUnread();
    return this.#groups < MOST_GROUPS;
  }

  #add(watched: WatchedPartition, group: WatchedGroup): void {
    watched.groups.set(group.group, group);
    watched.unnamed.add(group);
    this.#groups++;
  }

  /**
   * Makes room for groups that are read, so that names which somebody reads once keep nobody else out. For many at once, because
   * the next atom of a partition names all its groups again.
   */
  #dropLongestUnread(): void {
    const unread: { readonly watched: WatchedPartition; readonly group: WatchedGroup }[] = [];
    for (const watched of this.#partitions.values()) {
      for (const group of watched.groups.values()) if (group.readers.size === 0) unread.push({ watched, group });
    }
    unread.sort((a, b) => a.group.readAt - b.group.readAt);
    for (const { watched, group } of unread.slice(0, MOST_GROUPS / 4)) this.#drop(watched, group);
  }

  #dropIdle(id: PartitionId, watched: WatchedPartition, now: Instant): void {
    if (now <= watched.idleAt) return;
    let readAt = now;
    for (const group of watched.groups.values()) {
      if (group.readers.size > 0) continue;
      if (now - group.readAt > IDLE_MS) this.#drop(watched, group);
      else if (group.readAt < readAt) readAt = group.readAt;
    }
    watched.idleAt = (readAt + IDLE_MS) as Instant;
    if (watched.groups.size === 0) this.#partitions.delete(id);
  }

  #drop(watched: WatchedPartition, group: WatchedGroup): void {
    watched.groups.delete(group.group);
    watched.unnamed.delete(group);
    watched.told.delete(group.group);
    watched.isUnnamed = true;
    this.#groups--;
    this.#changed.delete(group);
    this.#stale += group.size;
    while (group.size > 0) this.#forgetFirst(group);
    if (this.#stale * 2 <= this.#order.size) return;
    const kept = [...this.#order].filter((other) => other.size > 0);
    this.#order.clear();
    for (const other of kept) this.#order.push(other);
    this.#stale = 0;
  }

  /** Returns the groups with events. */
  #note(watched: WatchedPartition, ticket: Ticket, groups: readonly EventsOfGroup[]): readonly WatchedGroup[] {
    const noted: WatchedGroup[] = [];
    for (const { group: name, events, encoded } of groups) {
      const group = watched.groups.get(name);
      if (group === undefined || events.length === 0) continue;
      this.#bytes += group.note(ticket, events, encoded);
      noted.push(group);
      this.#order.push(group);
    }
    while (this.#bytes > this.#deps.maxBytes && this.#order.size > 0) {
      const oldest = this.#order.shift();
      if (oldest === undefined || oldest.size === 0) this.#stale--;
      else this.#forgetFirst(oldest);
    }
    return noted;
  }

  #forgetFirst(group: WatchedGroup): void {
    this.#bytes -= group.forgetFirst();
  }

  /** In a later turn, so that the callers of the atoms are answered first, and many atoms cost one look. */
  #lookSoon(group: WatchedGroup): void {
    this.#changed.add(group);
    if (this.#isLooking) return;
    this.#isLooking = true;
    void this.#look();
  }

  async #look(): Promise<void> {
    await sleep(this.#deps.clock, 0);
    let looks = 0;
    let events = 0;
    // A group that changes meanwhile, or whose readers have not looked at all, is added again, and has its turn again.
    for (const group of this.#changed) {
      this.#changed.delete(group);
      for (const reader of group.readers) {
        if (++looks > LOOKS_AT_ONCE || events >= EVENTS_AT_ONCE) {
          await sleep(this.#deps.clock, 0);
          looks = 0;
          events = 0;
        }
        const { lookedAt, isCut } = reader.look(this.#durable(group));
        events += lookedAt;
        if (isCut && group.readers.has(reader)) this.#changed.add(group);
      }
    }
    this.#isLooking = false;
  }
}

const cancelled = (): Refusal => new Refusal('CANCELLED', 'the call was cancelled', { metadata: NOTHING_CHANGED });

const noPosition = (): Refusal =>
  new Refusal('INVALID_ARGUMENT', 'after is no position of this group: read without it, and list the tasks', {
    metadata: { field: 'after' },
  });

const tooMany = (message: string, limit: number): Refusal =>
  new Refusal('TOO_MANY_WAITERS', message, { retryDelayMs: RETRY_MS, metadata: { limit: String(limit) } });
