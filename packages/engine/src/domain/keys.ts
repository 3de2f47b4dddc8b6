import { latin1Of } from './bytes.ts';
import type { Instant, Key, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
import type { LaneName } from './task.ts';

/*
 * Row keys. They are bytes as latin1 strings, so that their order as strings is their order on disk:
 *   task     partition (2 bytes) · queue id (6) · PID          families data, ready, hidden
 *   due      partition (2) · queue id (6) · instant (6) · PID  family due
 *   lane     partition (2) · queue id (6) · 6 bytes 0xff · tag (1) · length (1) · limit key · PID
 *            ...                                       · tag (1) · length (1) · kind · length (1) · limit key · PID
 *                                                              family due, behind all instants
 *   order    partition (2) · queue id (6) · 6 bytes 0xff · tag (1) · order key       family due, behind all lanes
 *   queue    partition (2) · queue id (6)                      family queues; family meta behind REAP
 *   log      partition (2) · ticket (6)                        family log
 *   request  partition (2) · window (4) · request id           family requests
 * Numbers are big-endian. Keys are compared by whole bytes, so a PID may hold any byte.
 */

const PREFIX = 8;
const DUE_PREFIX = 14;
const TWO_24 = 2 ** 24;

const u16 = (n: number): string => String.fromCharCode(n >>> 8, n & 0xff);
const u32 = (n: number): string =>
  String.fromCharCode((n >>> 24) & 0xff, (n >>> 16) & 0xff, (n >>> 8) & 0xff, n & 0xff);

function u48(n: number): string {
  const high = Math.floor(n / TWO_24);
  const low = n % TWO_24;
  return String.fromCharCode(
    (high >>> 16) & 0xff,
    (high >>> 8) & 0xff,
    high & 0xff,
    (low >>> 16) & 0xff,
    (low >>> 8) & 0xff,
    low & 0xff,
  );
}

function readU48(text: string, at: number): number {
  let value = 0;
  for (let i = at; i < at + 6; i++) value = value * 256 + text.charCodeAt(i);
  return value;
}

/** Largest instant of a due key: the year 10889. Later instants are stored as this one. */
const LAST_INSTANT = 2 ** 48 - 1;

export const queuePrefix = (partition: PartitionId, queue: QueueId): string => u16(partition) + u48(queue);
export const taskKey = (prefix: string, pid: Pid): Key => (prefix + pid) as Key;
export const dueKey = (prefix: string, until: Instant, pid: Pid): Key =>
  (prefix + u48(Math.min(until, LAST_INSTANT)) + pid) as Key;

export const pidOfTaskKey = (key: Key): Pid => key.slice(PREFIX) as Pid;
export const pidOfDueKey = (key: Key): Pid => key.slice(DUE_PREFIX) as Pid;
export const instantOfDueKey = (key: Key): Instant => readU48(key, PREFIX) as Instant;

/** A leased task with a limit key, or an available one with a limit key or a kind. Tasks that users delay are due long before. */
export type LaneTag = 'leased' | 'available';
const LANES = '\xff'.repeat(6);
const LANE_PREFIX = PREFIX + LANES.length;
const LEASED_TAG = '\0';
const AVAILABLE_TAG = '\x01';
const AVAILABLE_WITH_KIND_TAG = '\x02';
const ORDER_TAG = '\x03';

/** All keys of lanes of a queue begin with it. */
export const lanesPrefix = (prefix: string): Key => (prefix + LANES) as Key;

/** All keys of the order keys of a queue begin with it. They are behind those of its lanes. */
export const ordersPrefix = (prefix: string): Key => (prefix + LANES + ORDER_TAG) as Key;
/** Its row names the last task with an order key. */
export const orderKeyRow = (prefix: string, orderKey: string): Key => (ordersPrefix(prefix) + utf8Of(orderKey)) as Key;

/** Each character is a byte in UTF-8. */
const ASCII = /^[\0-\x7f]*$/;
const utf8Of = (text: string): string => (ASCII.test(text) ? text : latin1Of(Buffer.from(text)));

const withLength = (text: string): string => {
  const bytes = utf8Of(text);
  return String.fromCharCode(bytes.length) + bytes;
};

/** Leased tasks count by their limit keys only. */
export function lanePrefix(prefix: string, tag: LaneTag, { limitKey, kind }: LaneName): string {
  if (tag === 'leased') return prefix + LANES + LEASED_TAG + withLength(limitKey);
  if (!kind) return prefix + LANES + AVAILABLE_TAG + withLength(limitKey);
  return kindPrefix(prefix, kind) + withLength(limitKey);
}

/** Lanes of the available tasks with a kind. */
export const kindPrefix = (prefix: string, kind: string): string =>
  prefix + LANES + AVAILABLE_WITH_KIND_TAG + withLength(kind);

export function laneOfKey(key: Key): { readonly tag: LaneTag; readonly lane: LaneName; readonly pid: Pid } {
  let at = LANE_PREFIX + 1;
  const next = (): string => {
    const from = at + 1;
    at = from + key.charCodeAt(at);
    return Buffer.from(key.slice(from, at), 'latin1').toString();
  };
  const kind = key[LANE_PREFIX] === AVAILABLE_WITH_KIND_TAG ? next() : undefined;
  const lane = { limitKey: next(), kind };
  const tag = key[LANE_PREFIX] === LEASED_TAG ? 'leased' : 'available';
  return { tag, lane, pid: key.slice(at) as Pid };
}

/** The first key behind all keys that begin with `prefix`. */
export function afterPrefix(prefix: string): Key {
  for (let end = prefix.length; end > 0; end--) {
    const last = prefix.charCodeAt(end - 1);
    if (last < 0xff) return (prefix.slice(0, end - 1) + String.fromCharCode(last + 1)) as Key;
  }
  throw new RangeError('no key is behind a prefix of 0xff bytes only');
}

/** The first PID behind `pid` in order. */
export const pidAfter = (pid: Pid): Pid => `${pid}\0` as Pid;

export const queueKey = (partition: PartitionId, queue: QueueId): Key => queuePrefix(partition, queue) as Key;

export const logKey = (partition: PartitionId, ticket: Ticket): Key => (u16(partition) + u48(ticket)) as Key;
export const partitionOfLogKey = (key: Key): PartitionId =>
  (key.charCodeAt(0) * 256 + key.charCodeAt(1)) as PartitionId;
export const ticketOfLogKey = (key: Key): Ticket => readU48(key, 2) as Ticket;

export const partitionOfRequestKey = (key: Key): PartitionId => partitionOfLogKey(key);

/** `window`: number of the retry window since 1970. Old windows are deleted by range. */
export const requestKey = (partition: PartitionId, window: number, id: string): Key =>
  (u16(partition) + u32(window) + id) as Key;

export const windowOfRequestKey = (key: Key): number => {
  let window = 0;
  for (let at = 2; at < 6; at++) window = window * 256 + key.charCodeAt(at);
  return window;
};
export const requestIdOfKey = (key: Key): string => key.slice(6);

/** Rows of the family meta. */
export const metaKeys = {
  node: 'node' as Key,
  clock: 'clock' as Key,
  /** When an operator last accepted that acknowledged work is lost; see `accepted-loss.ts`. */
  acceptedLoss: 'accepted-loss' as Key,
  partition: (partition: PartitionId): Key => `partition/${u16(partition)}` as Key,
  /** The holder of a partition as a durable fact of this node; only in clusters. */
  holder: (partition: PartitionId): Key => `holder/${u16(partition)}` as Key,
  /** Marks a partition that this node does not hold, but may have rows of. */
  clear: (partition: PartitionId): Key => `clear/${u16(partition)}` as Key,
  /** Marks an ended generation of a queue whose rows must be deleted. */
  reap: (partition: PartitionId, queue: QueueId): Key => `reap/${u16(partition)}${u48(queue)}` as Key,
};

/** The partition at the end of a key of the family meta. */
export const partitionOfMetaKey = (key: Key): PartitionId => {
  const at = key.length - 2;
  return (key.charCodeAt(at) * 256 + key.charCodeAt(at + 1)) as PartitionId;
};

/** The range of all keys that begin with the partition. */
export const partitionRange = (partition: PartitionId): { readonly gte: Key; readonly lt: Key } => ({
  gte: u16(partition) as Key,
  lt: afterPrefix(u16(partition)),
});

export const prefixOfReapKey = (key: Key): string => key.slice('reap/'.length);

export const partitionOfReapKey = (key: Key): PartitionId => partitionOfLogKey(prefixOfReapKey(key) as Key);
