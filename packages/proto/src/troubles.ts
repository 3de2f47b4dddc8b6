import type { QueueStats, Trouble } from './gen/taskmaster/v1/queues.ts';
import { parseQueueName } from './queue-name.ts';

/** What may be wrong with a queue, the worst last. docs/operate/console.md explains each. */
export const queueTroubles = [
  'paused-long',
  'kind-unclaimed',
  'queue-growing',
  'queue-failing',
  'queue-old',
  'queue-dying',
  'queue-unworked',
] as const;
export type QueueTroubleKind = (typeof queueTroubles)[number];

/** What may be wrong with a member. Others than the member itself find the first ones. */
export const nodeTroubles = [
  'member-down',
  'member-unreachable',
  'partition-unserved',
  'node-not-serving',
  'disk',
  'disk-nearly',
  'certificate',
  'reload',
  'clock',
  'backup-failed',
  'backup',
  'schedules-late',
] as const;
export type NodeTroubleKind = (typeof nodeTroubles)[number];

/** How bad a trouble of a queue is. 0: the release that found it is newer. */
export const rankOfTrouble = (kind: string): number => (queueTroubles as readonly string[]).indexOf(kind) + 1;

/** The place of a queue in a listing. By name, all have the rank 0. */
export interface QueuePlace {
  /** Full name, `group#name`. */
  readonly queue: string;
  /** 0: nothing is wrong. */
  readonly rank: number;
  /** Since when its worst trouble lasts, in ms since 1970. */
  readonly since: number;
}

/** The place of a queue in the order by trouble. `troubles`: the worst first. */
export function placeByTrouble(queue: string, troubles: readonly Pick<Trouble, 'kind' | 'sinceUnixMs'>[]): QueuePlace {
  const [worst] = troubles;
  return worst === undefined
    ? { queue, rank: 0, since: 0 }
    : { queue, rank: rankOfTrouble(worst.kind), since: worst.sinceUnixMs };
}

/** The place of a listed queue. It has none but its name unless the statistics say what is wrong. */
export const placeOf = ({ queue, watch }: QueueStats): QueuePlace => placeByTrouble(queue, watch?.troubles ?? []);

/** First the worst troubles, of those the oldest, and all others by name. */
export const comparePlaces = (a: QueuePlace, b: QueuePlace): number =>
  b.rank - a.rank || a.since - b.since || compareNames(a.queue, b.queue);

/** Compares two full queue names bytewise: by group, then by name. */
export function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  const [left, right] = [parseQueueName(a), parseQueueName(b)];
  return compareBytes(left.group, right.group) || compareBytes(left.name, right.name);
}

/** Compares as UTF-8 bytes. JavaScript compares UTF-16 units, which differs beyond U+FFFF. */
function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}
