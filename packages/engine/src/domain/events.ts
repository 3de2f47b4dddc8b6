import {
  Event,
  EventKind,
  encodeToBuffer,
  formatQueueName,
  parseQueueName,
  type QueueName,
  ReadEventsResponse,
} from '@taskmaster/proto';
import { ByteWriter, latin1Of } from './bytes.ts';
import type { Instant, PartitionId, PartitionLife, Pid, Ticket } from './ids.ts';
import { type NameMatcher, namePattern, patternsMeet } from './name-pattern.ts';

/** Something that has happened in a group. */
export interface GroupEvent {
  readonly kind: EventKind;
  readonly at: Instant;
  /** Full name; of a pause or a limit with the pattern as its name. */
  readonly queue: string;
  /** Empty: it is not about one task. */
  readonly pid: Pid;
  /** Empty: the task has none. */
  readonly key: string;
  readonly attempts: number;
  readonly worker: string;
  readonly text: string;
  /** Where the task is now, if it has left its place for another one. */
  readonly to: { readonly queue: string; readonly pid: Pid } | undefined;
  /** How many tasks a queue had that was deleted. */
  readonly tasks: number;
}

/** The events of an atom in a group that has readers. */
export interface EventsOfGroup {
  readonly group: string;
  readonly events: readonly GroupEvent[];
  /** Each event after its length, as an `Event` without a position: encoded once, for the log and for all readers. */
  readonly encoded: Uint8Array;
}

/**
 * What an atom says about the groups of its partition that have readers. Most atoms name only those with events, because there
 * may be thousands of others.
 */
export interface EventsOfAtom {
  /** True: all groups that have readers are named. False: groups that are not named have readers if they had some before. */
  readonly isWhole: boolean;
  readonly groups: readonly EventsOfGroup[];
}

/** A place among the events of a partition. */
export interface EventPosition {
  readonly partition: PartitionId;
  readonly life: PartitionLife;
  /** All events of earlier atoms come before. */
  readonly ticket: Ticket;
  /** How many events of the atom with this ticket come before. 0: all. */
  readonly count: number;
}

const POSITION = /^(\d{1,5})(?:\.([\da-z]{1,10}))?-(\d{1,16})(?:-(\d{1,9}))?$/;
const LIFE_RADIX = 36;

/** What the positions of a life of a partition begin with. */
export const positionPrefix = ({ partition, life }: Pick<EventPosition, 'partition' | 'life'>): string =>
  life === 0 ? `${partition}-` : `${partition}.${life.toString(LIFE_RADIX)}-`;

/** `prefix`: by `positionPrefix`. */
export const positionText = (prefix: string, ticket: Ticket, count: number): string =>
  count === 0 ? `${prefix}${ticket}` : `${prefix}${ticket}-${count}`;

export const formatPosition = (position: EventPosition): string =>
  positionText(positionPrefix(position), position.ticket, position.count);

/** Undefined: the text is not a position. */
export function parsePosition(text: string): EventPosition | undefined {
  const [, partition, life = '0', ticket, count = 0] = POSITION.exec(text) ?? [];
  if (ticket === undefined || !Number.isSafeInteger(Number(ticket))) return undefined;
  return {
    partition: Number(partition) as PartitionId,
    life: Number.parseInt(life, LIFE_RADIX),
    ticket: Number(ticket) as Ticket,
    count: Number(count),
  };
}

/** Instead of a position: before the oldest event that is kept. */
export const OLDEST = 'oldest';

/** A read of the events of a group. */
export interface ReadEventsCommand {
  readonly group: string;
  /** Undefined: from now on. */
  readonly after: EventPosition | typeof OLDEST | undefined;
  readonly filter: EventFilter;
  readonly most: number;
  readonly waitMs: number;
}

/** The events behind a position, and the position to go on behind. */
export interface EventPage {
  /** Number of the events. */
  readonly count: number;
  /** A `ReadEventsResponse` with both. Undefined: there are no events. */
  readonly encoded: Uint8Array | undefined;
  readonly position: EventPosition;
}

/** A page as a reply that is encoded already. Readers in this process decode the events that they look at. */
export interface EventsReply extends ReadEventsResponse {
  readonly encoded: Uint8Array;
}

export function eventsReply({ encoded, position: at }: EventPage): EventsReply {
  const position = formatPosition(at);
  let events: Event[] | undefined;
  const reply = {
    get events() {
      events ??= encoded === undefined ? [] : ReadEventsResponse.decode(encoded).events;
      return events;
    },
    position,
  };
  // Hidden, so that the reply is a message like any other.
  const value = encoded ?? encodeToBuffer(ReadEventsResponse, { events: [], position });
  return Object.defineProperty(reply, 'encoded', { value }) as typeof reply & { readonly encoded: Uint8Array };
}

/** Events whose queue is a pattern. */
const OF_PATTERNS: ReadonlySet<EventKind> = new Set([
  EventKind.EVENT_KIND_PAUSED,
  EventKind.EVENT_KIND_RESUMED,
  EventKind.EVENT_KIND_LIMIT_REACHED,
]);

/** The events that a reader wants. */
export class EventFilter {
  readonly #queues: QueueName;
  readonly #hasName: NameMatcher;
  /** Its only queue. Undefined: there may be several. */
  readonly #only: string | undefined;
  readonly #kinds: ReadonlySet<EventKind> | undefined;
  readonly #pid: Pid | undefined;
  readonly #key: string | undefined;

  /** `queues`: its name is a pattern. `kinds`, `pid` and `key`: undefined: any. */
  constructor(
    queues: QueueName,
    kinds: ReadonlySet<EventKind> | undefined,
    { pid, key }: { readonly pid?: Pid | undefined; readonly key?: string | undefined },
  ) {
    this.#queues = queues;
    this.#hasName = namePattern(queues.name);
    this.#only = queues.name.includes('*') ? undefined : formatQueueName(queues);
    this.#kinds = kinds;
    this.#pid = pid;
    this.#key = key;
  }

  /** Whether all events of the group are wanted. */
  get isAll(): boolean {
    const isOfAllTasks = this.#pid === undefined && this.#key === undefined;
    return this.#kinds === undefined && isOfAllTasks && this.#queues.name === '*';
  }

  /** `event`: of its group. */
  has(event: GroupEvent): boolean {
    const { kind, queue, to } = event;
    if (this.#kinds !== undefined && !this.#kinds.has(kind)) return false;
    if (!this.#isOfTask(event)) return false;
    if (OF_PATTERNS.has(kind)) {
      return patternsMeet(parseQueueName(queue).name, this.#queues.name);
    }
    return this.#hasQueue(queue) || (to !== undefined && this.#hasQueue(to.queue));
  }

  #isOfTask({ kind, pid, key, to }: GroupEvent): boolean {
    if (this.#pid === undefined && this.#key === undefined) return true;
    if (kind === EventKind.EVENT_KIND_QUEUE_DELETED) return true;
    return this.#pid === undefined ? key === this.#key : pid === this.#pid || to?.pid === this.#pid;
  }

  #hasQueue(fullName: string): boolean {
    return this.#only === undefined ? this.#hasName(parseQueueName(fullName).name) : fullName === this.#only;
  }
}

/** Reads an event of a log entry, without its length. */
export function decodeEvent(bytes: Uint8Array): GroupEvent {
  const { kind, atUnixMs, queue, pid, key, attempts, worker, text, toQueue, toPid, tasks } = Event.decode(bytes);
  return {
    kind,
    at: atUnixMs as Instant,
    queue,
    pid: latin1Of(pid) as Pid,
    key,
    attempts,
    worker,
    text,
    to: toQueue === '' ? undefined : { queue: toQueue, pid: latin1Of(toPid) as Pid },
    tasks,
  };
}

/** Tags of the fields of `Event`. */
const Tag = {
  position: 0x0a,
  kind: 0x10,
  atUnixMs: 0x18,
  queue: 0x22,
  pid: 0x2a,
  key: 0x32,
  attempts: 0x38,
  worker: 0x42,
  text: 0x4a,
  toQueue: 0x52,
  toPid: 0x5a,
  tasks: 0x60,
} as const;
const encoded = new ByteWriter();
const NO_EVENTS = new Uint8Array(0);

/**
 * Encodes events as `EventsOfGroup` has them. The generated encoder would write the same bytes, and create a buffer for each
 * (bench row `controls`).
 */
export function encodeEvents(events: readonly GroupEvent[]): Uint8Array {
  if (events.length === 0) return NO_EVENTS;
  for (const { kind, at, queue, pid, key, attempts, worker, text, to, tasks } of events) {
    const begin = encoded.beginPart();
    writeNumber(Tag.kind, kind);
    writeNumber(Tag.atUnixMs, at);
    writeText(Tag.queue, queue);
    writePid(Tag.pid, pid);
    writeText(Tag.key, key);
    writeNumber(Tag.attempts, attempts);
    writeText(Tag.worker, worker);
    writeText(Tag.text, text);
    if (to !== undefined) {
      writeText(Tag.toQueue, to.queue);
      writePid(Tag.toPid, to.pid);
    }
    writeNumber(Tag.tasks, tasks);
    encoded.endPart(begin);
  }
  return encoded.take();
}

function writeNumber(tag: number, value: number): void {
  if (value === 0) return;
  encoded.byte(tag);
  encoded.number(value);
}

function writeText(tag: number, text: string): void {
  if (text === '') return;
  encoded.byte(tag);
  encoded.utf8(text);
}

function writePid(tag: number, pid: Pid): void {
  if (pid === '') return;
  encoded.byte(tag);
  encoded.latin1(pid);
}

/** Approximate memory of an event, in bytes, without its encoded form. */
export const eventBytes = ({ pid, key, text, worker, to }: GroupEvent): number =>
  200 + pid.length + key.length + text.length + worker.length + (to === undefined ? 0 : 64 + to.pid.length);

const MISSED = Uint8Array.of(Tag.kind, EventKind.EVENT_KIND_MISSED);
/** Tags of the fields of `ReadEventsResponse`. */
const PageTag = { events: 0x0a, position: 0x12 } as const;
const page = new ByteWriter();

/** Writes a `ReadEventsResponse`, one at a time in the process. Positions are ASCII, below 128 characters. */
export const pageWriter = {
  begin(): void {
    page.view();
  },

  get bytes(): number {
    return page.length;
  },

  /** Begins with an event which says that events before this position may be missed. */
  missed(position: string): void {
    this.event(position, MISSED, 0, MISSED.length);
  },

  /** Adds the event of an encoded list that has these bytes. */
  event(position: string, events: Uint8Array, from: number, to: number): void {
    page.byte(PageTag.events);
    page.number(2 + position.length + to - from);
    page.byte(Tag.position);
    page.latin1(position);
    page.part(events, from, to);
  },

  /** The page is empty afterwards. */
  take(position: string): Uint8Array {
    page.byte(PageTag.position);
    page.latin1(position);
    return page.take();
  },
};
