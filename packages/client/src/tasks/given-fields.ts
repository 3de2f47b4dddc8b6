import type { Enqueue } from '@taskmaster/proto';
import { type Duration, timeLimitMs } from '../values/duration.ts';
import type { OptionNames } from '../values/known-options.ts';

/** What a task is given when it is enqueued, also by a schedule, and keeps as it is. */
export interface GivenOptions {
  /**
   * How long one attempt may take, 1 ms to 1 year. Then it has failed, whatever its worker does: the lease ends, and the signal
   * of the worker's task is aborted. Default: as the queue's settings say, or no limit.
   */
  readonly timeLimit?: Duration | undefined;
}

export const givenNames: OptionNames<GivenOptions> = { timeLimit: true };

/** What `peek`, `get` and lists of schedules show of it. */
export interface GivenFields {
  /** How long one attempt may take, in ms. Undefined: it has no limit of its own. */
  readonly timeLimitMs: number | undefined;
}

/** These fields of messages. All that have them have the same ones. */
type GivenMessage = Pick<Enqueue, 'timeLimitMs'>;

/** The options, for the protocol. @throws TypeError if one is wrong. */
export const givenMessage = (options: GivenOptions): GivenMessage => ({
  timeLimitMs: options.timeLimit === undefined ? 0 : timeLimitMs(options.timeLimit),
});

export const givenFields = (message: GivenMessage): GivenFields => ({ timeLimitMs: message.timeLimitMs || undefined });
