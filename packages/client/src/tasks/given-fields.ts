import type { Enqueue } from '@taskmaster/proto';
import { type Duration, durationMs, timeLimitMs } from '../values/duration.ts';
import type { OptionNames } from '../values/known-options.ts';
import { someText } from '../values/some-text.ts';

/** What a task is given when it is enqueued, also by a schedule, and keeps as it is. */
export interface GivenOptions {
  /**
   * How long one attempt may take, 1 ms to 1 year. Then it has failed, whatever its worker does: the lease ends, and the signal
   * of the worker's task is aborted. Default: as the queue's settings say, or no limit.
   */
  readonly timeLimit?: Duration | undefined;
  /**
   * How long after the enqueue its first attempt may begin at the latest, 1 ms to ten years. A task that no worker has leased by
   * then does not run any more: it goes to the dead-letter queue that its retry policy or the settings of its queue name, or ends
   * as cancelled. Default: whenever.
   */
  readonly startWithin?: Duration | undefined;
  /**
   * What the task is counted by, 1 to 128 bytes of UTF-8: a customer or an API, for example. Limits of keys hold back its tasks
   * (`client.limitQueues` with `keys`), and queues with fair turns take turns of keys. Default: nothing.
   */
  readonly limitKey?: string | undefined;
  /**
   * What a worker must be able to run, 1 to 128 bytes: a name, or a name and a version, such as `resize@2`. Workers that name
   * `kinds` get only tasks of these. Default: any worker gets the task.
   */
  readonly kind?: string | undefined;
}

export const givenNames: OptionNames<GivenOptions> = { timeLimit: true, startWithin: true, limitKey: true, kind: true };

/** What `peek`, `get` and lists of schedules show of it. */
export interface GivenFields {
  /** How long one attempt may take, in ms. Undefined: it has no limit of its own. */
  readonly timeLimitMs: number | undefined;
  /** What limits and fair turns count it by. Undefined: nothing. */
  readonly limitKey: string | undefined;
  /** What a worker must be able to run. Undefined: it has no kind. */
  readonly kind: string | undefined;
}

/** These fields of messages. All that have them have the same ones. */
type GivenMessage = Pick<Enqueue, 'timeLimitMs' | 'startWithinMs' | 'limitKey' | 'kind'>;

/** The options, for the protocol. @throws TypeError if one is wrong. */
export const givenMessage = (options: GivenOptions): GivenMessage => ({
  timeLimitMs: options.timeLimit === undefined ? 0 : timeLimitMs(options.timeLimit),
  startWithinMs: options.startWithin === undefined ? undefined : startWithinMs(options.startWithin),
  limitKey: someText('limitKey', options.limitKey),
  kind: someText('kind', options.kind) || undefined,
});

/** Adds the options to a message. A spread takes several times as long. */
export function addGiven<Message extends object>(message: Message, options: GivenOptions): Message & GivenMessage {
  const { timeLimitMs, startWithinMs, limitKey, kind } = givenMessage(options);
  const given = message as Message & GivenMessage;
  given.timeLimitMs = timeLimitMs;
  given.startWithinMs = startWithinMs;
  given.limitKey = limitKey;
  given.kind = kind;
  return given;
}

function startWithinMs(startWithin: Duration): number {
  const ms = durationMs(startWithin, 'startWithin');
  if (ms < 1) throw new TypeError('startWithin: it is at least 1ms');
  return ms;
}

export const givenFields = (message: Pick<GivenMessage, 'timeLimitMs' | 'limitKey' | 'kind'>): GivenFields => ({
  timeLimitMs: message.timeLimitMs || undefined,
  limitKey: message.limitKey || undefined,
  kind: message.kind || undefined,
});
