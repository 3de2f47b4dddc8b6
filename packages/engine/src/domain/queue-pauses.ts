import { parseQueueName, type QueueName, QueuePause } from '@taskmaster/proto';
import type { Instant } from './ids.ts';
import { type NameMatcher, namePattern } from './name-pattern.ts';

/** A pause of the queues of a group that match a pattern. */
export interface PauseRecord {
  /** As callers see it. */
  readonly message: QueuePause;
  readonly group: string;
  readonly pattern: string;
  readonly matches: NameMatcher;
  /** When it ends by itself. Undefined: it does not. */
  readonly until: Instant | undefined;
}

const LONG_AGO = 0 as Instant;

/**
 * Reads a pause as it is stored. Its record is hidden until its end, so that the end moves with the clocks like that of a delay.
 * @param hiddenUntil undefined: the record is not hidden, so a pause with an end is over.
 */
export function decodePause(bytes: Uint8Array, hiddenUntil: Instant | undefined): PauseRecord {
  const stored = QueuePause.decode(bytes);
  const { group, name: pattern } = parseQueueName(stored.queues);
  const until = stored.untilUnixMs === 0 ? undefined : (hiddenUntil ?? LONG_AGO);
  const message = { ...stored, untilUnixMs: until ?? 0 };
  return { message, group, pattern, matches: namePattern(pattern), until };
}

export const isOver = ({ until }: PauseRecord, now: Instant): boolean => until !== undefined && until <= now;

/** Whether one pause ends after the other one. */
export const endsLater = (one: PauseRecord, other: PauseRecord): boolean =>
  other.until !== undefined && (one.until === undefined || one.until > other.until);

/** How queues are to be paused. */
export interface PauseCommand {
  /** Its name is the pattern. */
  readonly queues: QueueName;
  readonly reason: string;
  readonly by: string;
  /** Undefined: for no fixed time. */
  readonly durationMs: number | undefined;
  /** Undefined: no instant was named. */
  readonly until: Instant | undefined;
}

export interface Resumed {
  /** False: there was no such pause. */
  readonly resumed: boolean;
  /** Other pauses of all these queues. */
  readonly pauses: readonly PauseRecord[];
}

/** The operations of a node on pauses of queues. */
export interface PauseOperations {
  /** Pauses queues, or changes the pause with their pattern. Throws a `Refusal` if it would end at once. */
  pause(command: PauseCommand): Promise<PauseRecord>;
  /** Ends the pause with this pattern. */
  resume(pattern: QueueName): Promise<Resumed>;
  /** The pauses of a group. */
  list(group: string): Promise<readonly PauseRecord[]>;
}
