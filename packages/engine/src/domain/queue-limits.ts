import { type LeaseRate, parseQueueName, QueueLimit, type QueueName } from '@taskmaster/proto';
import type { Instant } from './ids.ts';
import { type NameMatcher, namePattern } from './name-pattern.ts';

/** A limit of how many tasks of the queues of a group that match a pattern are leased. */
export interface LimitRecord {
  /** As it is stored. */
  readonly message: QueueLimit;
  readonly group: string;
  readonly pattern: string;
  readonly matches: NameMatcher;
  /** Set if it is a limit of each key that matches. Undefined: of all tasks together. */
  readonly matchesKey: NameMatcher | undefined;
}

/** A key whose tasks a limit holds back. */
export interface HeldKey {
  readonly key: string;
  /** Tasks with the key that are leased. */
  readonly leased: number;
  /** Since when it allows no further lease. */
  readonly usedUpSince: Instant;
  /** Available tasks with the key. */
  readonly available: number;
}

/** A limit with what its queues use of it. */
export interface LimitUse {
  readonly record: LimitRecord;
  /** Tasks of its queues that are leased. */
  readonly leased: number;
  /** Since when it allows no further lease. Undefined: it allows one. */
  readonly usedUpSince: Instant | undefined;
  /** Of a limit of keys: keys whose tasks are held back, first those that are for the longest time. */
  readonly heldKeys: readonly HeldKey[];
  /** How many such keys there are. */
  readonly heldKeyCount: number;
  /** Available tasks with these keys. */
  readonly heldTasks: number;
}

/** How queues are to be limited. */
export interface LimitCommand {
  /** Its name is the pattern. */
  readonly queues: QueueName;
  /** The pattern of the keys that are limited one by one. Empty: all tasks of the queues are, together. */
  readonly keys: string;
  readonly by: string;
  /** 0: any number. */
  readonly maxLeased: number;
  /** Undefined: any rate. */
  readonly rate: LeaseRate | undefined;
}

export interface Unlimited {
  /** False: there was no such limit. */
  readonly removed: boolean;
  /** Other limits of all these queues. */
  readonly limits: readonly LimitUse[];
}

/** The operations of a node on limits of queues. */
export interface LimitOperations {
  /** Limits queues, or replaces the limit with their pattern. */
  limit(command: LimitCommand): Promise<LimitUse>;
  /** Ends the limit with this pattern and this pattern of keys. */
  unlimit(pattern: QueueName, keys: string): Promise<Unlimited>;
  /** The limits of a group. */
  list(group: string): Promise<readonly LimitUse[]>;
}

/** Reads a limit as it is stored. */
export function decodeLimit(bytes: Uint8Array): LimitRecord {
  const message = QueueLimit.decode(bytes);
  const { group, name: pattern } = parseQueueName(message.queues);
  const matchesKey = message.keys === '' ? undefined : namePattern(message.keys);
  return { message, group, pattern, matches: namePattern(pattern), matchesKey };
}

/** A limit as callers see it. */
export const limitMessage = ({ record, usedUpSince, heldKeys, ...counts }: LimitUse): QueueLimit => ({
  ...record.message,
  ...counts,
  usedUpSinceUnixMs: usedUpSince ?? 0,
  heldKeys: heldKeys.map(({ usedUpSince: since, ...held }) => ({ ...held, usedUpSinceUnixMs: since })),
});
