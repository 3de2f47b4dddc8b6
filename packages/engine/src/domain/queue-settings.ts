import {
  EnqueueMode,
  limits,
  parseQueueName,
  type QueueName,
  QueueSettings as QueueSettingsMessage,
  WhenFull,
} from '@taskmaster/proto';
import { type NameMatcher, namePattern } from './name-pattern.ts';
import { DEFAULT_RETRY, type RetryPolicy } from './task.ts';

/** What applies to the tasks of a queue, unless they or a request say otherwise. */
export interface QueueSettings {
  /** Its dead-letter queue is that of all tasks whose policy names none. Empty: the default one. */
  readonly retry: RetryPolicy;
  readonly leaseDurationMs: number;
  readonly mode: EnqueueMode;
  readonly resultRetentionMs: number;
  /** For how long after a completion enqueues of the same PID add nothing. 0: not at all. */
  readonly keepOutMs: number;
  /** How long one attempt may take. 0: there is no limit. */
  readonly timeLimitMs: number;
  /** How many tasks may wait. 0: any number. */
  readonly maxBacklog: number;
  /** How many tasks with the same limit key may wait. 0: any number. */
  readonly maxKeyBacklog: number;
  readonly whenFull: WhenFull;
  /** Undefined: tasks are leased in the order of their PIDs. */
  readonly fair: FairTurns | undefined;
}

/** Leases are granted in turns of limit keys. */
export interface FairTurns {
  /** As they were put: by key or by pattern. */
  readonly weights: Record<string, number>;
  weightOf(key: string): number;
}

/** Settings that were put for the queues of a group that match a pattern. What is undefined comes from less specific ones. */
export interface SettingsRecord {
  /** As they were put. */
  readonly message: QueueSettingsMessage;
  readonly pattern: string;
  readonly matches: NameMatcher;
  readonly retry: Omit<RetryPolicy, 'deadLetterQueue'> | undefined;
  readonly deadLetterQueue: string | undefined;
  readonly leaseDurationMs: number | undefined;
  readonly mode: EnqueueMode | undefined;
  readonly resultRetentionMs: number | undefined;
  readonly keepOutMs: number | undefined;
  readonly timeLimitMs: number | undefined;
  readonly maxBacklog: number | undefined;
  readonly maxKeyBacklog: number | undefined;
  readonly whenFull: WhenFull | undefined;
  readonly fair: FairTurns | undefined;
}

export const DEFAULT_SETTINGS: QueueSettings = {
  retry: DEFAULT_RETRY,
  leaseDurationMs: limits.defaultLeaseDurationMs,
  mode: EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  resultRetentionMs: limits.defaultResultRetentionMs,
  keepOutMs: 0,
  timeLimitMs: 0,
  maxBacklog: 0,
  maxKeyBacklog: 0,
  whenFull: WhenFull.WHEN_FULL_REFUSE,
  fair: undefined,
};

/** Reads the settings as they are stored: a valid message, whose `queues` the node has checked. */
export function decodeSettings(bytes: Uint8Array): SettingsRecord {
  const message = QueueSettingsMessage.decode(bytes);
  const { queues, retry, deadLetterQueue, mode, maxBacklog, maxKeyBacklog, whenFull, fairTurns, ...times } = message;
  const pattern = parseQueueName(queues).name;
  return {
    message,
    pattern,
    matches: namePattern(pattern),
    retry,
    deadLetterQueue: deadLetterQueue === '' ? undefined : parseQueueName(deadLetterQueue).name,
    leaseDurationMs: times.leaseDurationMs || undefined,
    mode: mode || undefined,
    resultRetentionMs: times.resultRetentionMs || undefined,
    keepOutMs: times.keepOutMs || undefined,
    timeLimitMs: times.timeLimitMs || undefined,
    maxBacklog: maxBacklog || undefined,
    maxKeyBacklog: maxKeyBacklog || undefined,
    whenFull: whenFull || undefined,
    fair: fairTurns && turnsOf(fairTurns.weights),
  };
}

/** The weight of a key is that of the pattern which names it best. Without one it is 1. */
function turnsOf(weights: Record<string, number>): FairTurns {
  const patterns = inOrder(Object.entries(weights).map(([pattern, weight]) => ({ pattern, weight })));
  const rest = patterns.filter(({ pattern }) => pattern.includes('*'));
  const matchers = rest.map(({ pattern, weight }) => ({ matches: namePattern(pattern), weight }));
  const exact = new Map(patterns.map(({ pattern, weight }) => [pattern, weight]));
  return {
    weights,
    weightOf: (key) => exact.get(key) ?? matchers.find(({ matches }) => matches(key))?.weight ?? 1,
  };
}

/** The most specific records first: those without `*`, then those with more other characters. */
export const inOrder = <T extends { readonly pattern: string }>(records: T[]): T[] =>
  records.sort((a, b) => rank(b.pattern) - rank(a.pattern) || (a.pattern < b.pattern ? -1 : 1));

/** The operations of a node on the settings of queues. */
export interface SettingsOperations {
  /** Puts valid settings, in place of those with their pattern. */
  put(settings: QueueSettingsMessage): Promise<void>;
  /** `pattern`: its name is the pattern. Resolves with false if there are no such settings. */
  delete(pattern: QueueName): Promise<boolean>;
  /** The settings of a group. */
  list(group: string): Promise<readonly SettingsRecord[]>;
}

/** The higher, the more specific. */
export const rank = (pattern: string): number =>
  pattern.includes('*') ? pattern.replaceAll('*', '').length : Number.MAX_SAFE_INTEGER;

/** What applies to a queue: each field of the most specific record that has it. */
export function settingsOf(name: string, records: Iterable<SettingsRecord>): QueueSettings {
  const matching = inOrder([...records].filter(({ matches }) => matches(name)));
  if (matching.length === 0) return DEFAULT_SETTINGS;
  const first = <K extends keyof SettingsRecord>(field: K): SettingsRecord[K] | undefined =>
    matching.find((record) => record[field] !== undefined)?.[field];
  const { maxAttempts, backoffInitialMs, backoffMaxMs } = first('retry') ?? DEFAULT_RETRY;
  return {
    retry: { maxAttempts, backoffInitialMs, backoffMaxMs, deadLetterQueue: first('deadLetterQueue') ?? '' },
    leaseDurationMs: first('leaseDurationMs') ?? DEFAULT_SETTINGS.leaseDurationMs,
    mode: first('mode') ?? DEFAULT_SETTINGS.mode,
    resultRetentionMs: first('resultRetentionMs') ?? DEFAULT_SETTINGS.resultRetentionMs,
    keepOutMs: first('keepOutMs') ?? DEFAULT_SETTINGS.keepOutMs,
    timeLimitMs: first('timeLimitMs') ?? DEFAULT_SETTINGS.timeLimitMs,
    maxBacklog: first('maxBacklog') ?? DEFAULT_SETTINGS.maxBacklog,
    maxKeyBacklog: first('maxKeyBacklog') ?? DEFAULT_SETTINGS.maxKeyBacklog,
    whenFull: first('whenFull') ?? DEFAULT_SETTINGS.whenFull,
    fair: first('fair'),
  };
}
