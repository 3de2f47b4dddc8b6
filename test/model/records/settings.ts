import type { CountsReply, RetryCall } from '@taskmaster/cli/testing/history';
import type { Engine } from '@taskmaster/engine';
import { putSettings } from '@taskmaster/engine/testing';
import { WhenFull } from '@taskmaster/proto';
import type { Caps } from '../caps.ts';

/** Settings of queues in all runs, by pattern. They are put first. */
const SETTINGS: Readonly<Record<string, RetryCall>> = {
  'g#r': { maxAttempts: 3, backoffInitialMs: 30, backoffMaxMs: 100, deadLetterQueue: 'q' },
  'g#*': { maxAttempts: 2, backoffInitialMs: 0, backoffMaxMs: 1000, deadLetterQueue: '' },
  other: { maxAttempts: 0, backoffInitialMs: 0, backoffMaxMs: 1000, deadLetterQueue: '' },
};

/** Completed tasks of these queues keep enqueues of their PIDs out for longer than a run. */
const KEEPING_OUT: readonly string[] = ['g#q.dead'];
const KEEP_OUT_MS = 24 * 3600 * 1000;

/** Attempts at tasks of these queues have a time limit. */
const TIME_LIMITS_MS: Readonly<Record<string, number>> = { 'g#r': 350 };

/** The time limit of the settings of a queue, in ms. 0: there is none. */
export const timeLimitSetting = (queue: string): number => TIME_LIMITS_MS[queue] ?? 0;

export const keepsOut = (queue: string): boolean => KEEPING_OUT.includes(queue);

const WHEN_FULL = {
  refuse: WhenFull.WHEN_FULL_REFUSE,
  'drop-oldest': WhenFull.WHEN_FULL_DROP_OLDEST,
  'drop-newest': WhenFull.WHEN_FULL_DROP_NEWEST,
};

/** Puts the settings, and the caps of all queues. */
export async function putAllSettings(engine: Engine, caps: Caps | undefined): Promise<void> {
  const capped = caps && { ...caps, whenFull: WHEN_FULL[caps.whenFull] };
  for (const [queues, { deadLetterQueue, ...limits }] of Object.entries(SETTINGS)) {
    const retry = { ...limits, deadLetterQueue: '' };
    const given = { retry, deadLetterQueue: deadLetterQueue && `g#${deadLetterQueue}` };
    await putSettings(engine, queues, { ...given, timeLimitMs: timeLimitSetting(queues), ...capped });
  }
  for (const queue of KEEPING_OUT) await putSettings(engine, queue, { keepOutMs: KEEP_OUT_MS });
}

/** The settings as queues on disk: those of two groups. */
export const settingsCounts: readonly CountsReply[] = [1, 3].map((available) => ({
  queue: 'settings',
  available,
  leased: 0,
  delayed: 0,
  completed: 0,
}));

/** What the settings say about a queue of a scenario. */
export function retrySettings(queue: string): RetryCall {
  const settings = SETTINGS[queue] ?? SETTINGS['g#*'];
  if (settings === undefined) throw new Error(`no settings for ${queue}`);
  return settings;
}

const groupOf = (queue: string): string => (queue.includes('#') ? queue.slice(0, queue.indexOf('#')) : '');
const fullName = (group: string, name: string): string => (group === '' ? name : `${group}#${name}`);

/** Where a task goes that has not started in time. Undefined: it is cancelled. */
export function lateQueueOf(queue: string, retry: RetryCall | undefined): string | undefined {
  const name = retry?.deadLetterQueue || retrySettings(queue).deadLetterQueue;
  return name === '' ? undefined : deadLetterQueueOf(queue, retry);
}

export function deadLetterQueueOf(queue: string, retry: RetryCall | undefined): string {
  const name = retry?.deadLetterQueue || retrySettings(queue).deadLetterQueue;
  const given = fullName(groupOf(queue), name);
  return name !== '' && given !== queue ? given : `${queue}.dead`;
}
