import { limits } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { TaskOptions } from '../../tasks/new-task.ts';
import { lengthOfTime, queueName, wholeNumber } from './arguments.ts';

/** Options that say how tasks are enqueued, alike for one task and for many. */
export interface TaskFlags {
  readonly mode?: 'collapse' | 'fail' | 'replace';
  readonly delay?: number;
  readonly maxAttempts?: number;
  readonly backoff?: { readonly initial: number; readonly max: number | undefined };
  readonly deadLetter?: string;
}

export function addTaskFlags(command: Command): void {
  command
    .addOption(
      new Option('--mode <mode>', 'when the PID is in the queue already: keep that task, fail, or replace its data')
        .choices(['collapse', 'fail', 'replace'])
        .default('collapse'),
    )
    .addOption(new Option('--delay <duration>', 'keep the task hidden for so long').argParser(lengthOfTime))
    .addOption(
      new Option(
        '--max-attempts <n>',
        'leases before the task goes to the dead-letter queue (default: no limit)',
      ).argParser(wholeNumber(1, limits.maxAttempts)),
    )
    .addOption(
      new Option(
        '--backoff <initial[,max]>',
        'hide a failed task for up to so long, doubling with each attempt up to max (default: not hidden; max 1h)',
      ).argParser(backoff),
    )
    .addOption(
      new Option(
        '--dead-letter <queue>',
        'where the task goes after its last attempt, in the same group (default: the name followed by .dead)',
      ).argParser(queueName),
    );
}

export function taskOptions({ mode, delay, maxAttempts, backoff, deadLetter }: TaskFlags): TaskOptions {
  const hasRetry = maxAttempts !== undefined || backoff !== undefined || deadLetter !== undefined;
  return { mode, delay, retry: hasRetry ? { maxAttempts, backoff, deadLetterQueue: deadLetter } : undefined };
}

function backoff(text: string): TaskFlags['backoff'] {
  const [initial, max, ...more] = text.split(',');
  if (initial === undefined || more.length > 0) {
    throw new InvalidArgumentError(`'${text}' is not initial[,max], as in 1s,5m.`);
  }
  return { initial: lengthOfTime(initial), max: max === undefined ? undefined : lengthOfTime(max) };
}
