import {
  type EventPage,
  type EventPosition,
  type EventsOfGroup,
  eventBytes,
  formatPosition,
  pageWriter,
  positionPrefix,
  positionText,
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

interface KeptAtom extends Pick<EventsOfGroup, 'events' | 'encoded'> {
  readonly ticket: Ticket;
  /** Memory that it takes, in bytes. */
  readonly bytes: number;
  /**
   * The event with which the page after the last one begins: its index, and where its bytes begin in `encoded`. Without it, each
   * page of a reader of few events at a time would walk all earlier events of the atom.
   */
  next: { readonly index: number; readonly start: number };
}

/** The events of a group that has readers, or had one a while ago. */
export class WatchedGroup {
  readonly group: string;
  readonly partition: PartitionId;
  readonly #life: PartitionLife;
  readonly #prefix: string;
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
    this.#prefix = positionPrefix({ partition: id, life });
    this.since = since;
    this.readAt = readAt;
  }

  /** Returns the memory that the events take, in bytes. */
  note(ticket: Ticket, events: EventsOfGroup['events'], encoded: Uint8Array): number {
    let bytes = encoded.byteLength;
    for (const event of events) bytes += eventBytes(event);
    this.#atoms.push({ ticket, events, encoded, bytes, next: { index: 0, start: 0 } });
    return bytes;
  }

  /** Forgets the events of its oldest atom. Returns the memory that they have taken, in bytes. */
  forgetFirst(): number {
    const first = this.#atoms.shift();
    if (first !== undefined) this.since = first.ticket;
    return first?.bytes ?? 0;
  }

  /** How many atoms with events it has. */
  get size(): number {
    return this.#atoms.size;
  }

  /** The next events behind a position that are wanted, none behind `upTo`. */
  page(after: EventPosition, { filter, most }: ReadEventsCommand, upTo: Ticket): Look {
    const { isAll } = filter;
    pageWriter.begin();
    let events = 0;
    let lookedAt = 0;
    let { ticket, count } = after;
    if (after.ticket < this.since || (after.ticket === this.since && after.count > 0)) {
      ticket = this.since;
      count = 0;
      pageWriter.missed(positionText(this.#prefix, ticket, count));
      events++;
    }
    for (let at = this.#firstBehind(ticket, count); at < this.#atoms.size; at++) {
      const atom = this.#atoms.at(at);
      if (atom === undefined || atom.ticket > upTo) break;
      const { events: all, encoded, next } = atom;
      const first = atom.ticket === ticket ? count : 0;
      const isBehind = next.index <= first;
      let end = isBehind ? next.start : 0;
      for (let index = isBehind ? next.index : 0; index < all.length; index++) {
        const before = end;
        // Each event is after its length.
        const start = startOf(encoded, end);
        end = start + lengthAt(encoded, end);
        const event = all[index];
        if (index < first || event === undefined) continue;
        if (events >= most || pageWriter.bytes >= PAGE_BYTES || lookedAt === EVENTS_AT_ONCE) {
          atom.next = { index, start: before };
          return this.#look(events, ticket, count, lookedAt, true);
        }
        lookedAt++;
        ticket = atom.ticket;
        count = index + 1 === all.length ? 0 : index + 1;
        if (!isAll && !filter.has(event)) continue;
        pageWriter.event(positionText(this.#prefix, ticket, count), encoded, start, end);
        events++;
      }
    }
    return this.#look(events, Math.max(ticket, upTo) as Ticket, 0, lookedAt, false);
  }

  #look(events: number, ticket: Ticket, count: number, lookedAt: number, isCut: boolean): Look {
    const position = { partition: this.partition, life: this.#life, ticket, count };
    const encoded = events === 0 ? undefined : pageWriter.take(formatPosition(position));
    return { count: events, encoded, position, lookedAt, isCut };
  }

  /** Index of the first atom that has events behind the position. */
  #firstBehind(ticket: Ticket, count: number): number {
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

/** The length that stands at this place of a list of events: a varint. */
function lengthAt(encoded: Uint8Array, at: number): number {
  let length = 0;
  for (let [place, shift] = [at, 0]; ; place++, shift += 7) {
    const byte = encoded[place] ?? 0;
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) return length;
  }
}

/** Where the event behind this length begins. */
function startOf(encoded: Uint8Array, at: number): number {
  let place = at;
  while ((encoded[place] ?? 0) >= 0x80) place++;
  return place + 1;
}
