import type { Event } from '@taskmaster/proto';
import {
  type EventPage,
  type EventPosition,
  type EventsOfGroup,
  eventBytes,
  eventMessage,
  formatPosition,
  missedMessage,
  type ReadEventsCommand,
} from '../domain/events.ts';
import type { Instant, PartitionId, PartitionLife, Ticket } from '../domain/ids.ts';
import { RingBuffer } from '../domain/ring-buffer.ts';

/** Size limit of the events of a page, in bytes. The first one is always included. */
const PAGE_BYTES = 1024 * 1024;
/** Events that one look compares with a filter: other calls have their turns between looks. */
const EVENTS_AT_ONCE = 1_000;

/** A read that waits for an event of a group. */
export interface WaitingReader {
  /** Looks for events up to the ticket, and is answered if there are some. */
  look(upTo: Ticket): Look;
  /** Is answered with what there is up to the ticket, also with nothing. */
  end(upTo: Ticket): void;
}

/** What one look has found. */
export interface Look extends EventPage {
  /** How many events were compared with the filter. */
  readonly lookedAt: number;
  /** True: there are more events behind its position. */
  readonly isCut: boolean;
}

interface KeptAtom {
  readonly ticket: Ticket;
  readonly events: EventsOfGroup['events'];
}

/** The events of a group that has readers, or had one a while ago. */
export class WatchedGroup {
  readonly group: string;
  readonly partition: PartitionId;
  readonly #life: PartitionLife;
  /** All events of atoms behind this ticket are kept. */
  since: Ticket;
  /** When it was read last. */
  readAt: Instant;
  /** Those that wait. */
  readonly readers = new Set<WaitingReader>();
  readonly #atoms = new RingBuffer<KeptAtom>();

  constructor(
    group: string,
    { id, life }: { readonly id: PartitionId; readonly life: PartitionLife },
    since: Ticket,
    readAt: Instant,
  ) {
    this.group = group;
    this.partition = id;
    this.#life = life;
    this.since = since;
    this.readAt = readAt;
  }

  note(ticket: Ticket, events: EventsOfGroup['events']): void {
    this.#atoms.push({ ticket, events });
  }

  /** Forgets the events of its oldest atom. Returns them. */
  forgetFirst(): EventsOfGroup['events'] {
    const first = this.#atoms.shift();
    if (first !== undefined) this.since = first.ticket;
    return first?.events ?? [];
  }

  /** How many atoms with events it has. */
  get size(): number {
    return this.#atoms.size;
  }

  /** The next events behind a position that are wanted, none behind `upTo`. */
  page(after: EventPosition, { filter, most }: ReadEventsCommand, upTo: Ticket): Look {
    const { partition } = this;
    const life = this.#life;
    const events: Event[] = [];
    let lookedAt = 0;
    let last = after;
    if (after.ticket < this.since || (after.ticket === this.since && after.count > 0)) {
      last = { partition, life, ticket: this.since, count: 0 };
      events.push(missedMessage(formatPosition(last)));
    }
    const from = last;
    let bytes = 0;
    for (let at = this.#firstBehind(from); at < this.#atoms.size; at++) {
      const atom = this.#atoms.at(at);
      if (atom === undefined || atom.ticket > upTo) break;
      const { ticket, events: all } = atom;
      for (let index = ticket === from.ticket ? from.count : 0; index < all.length; index++) {
        const event = all[index];
        if (event === undefined) continue;
        if (events.length >= most || bytes >= PAGE_BYTES || lookedAt === EVENTS_AT_ONCE) {
          return { events, position: last, lookedAt, isCut: true };
        }
        lookedAt++;
        last = { partition, life, ticket, count: index + 1 === all.length ? 0 : index + 1 };
        if (!filter.has(event)) continue;
        bytes += eventBytes(event);
        events.push(eventMessage(event, formatPosition(last)));
      }
    }
    const position = { partition, life, ticket: Math.max(from.ticket, upTo) as Ticket, count: 0 };
    return { events, position, lookedAt, isCut: false };
  }

  /** Index of the first atom that has events behind the position. */
  #firstBehind({ ticket, count }: EventPosition): number {
    let low = 0;
    let high = this.#atoms.size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const atom = this.#atoms.at(middle);
      const isBefore = atom !== undefined && (atom.ticket < ticket || (atom.ticket === ticket && count === 0));
      if (isBefore) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
