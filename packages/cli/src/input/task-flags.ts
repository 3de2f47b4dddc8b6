import type { TaskHeaders, TaskOptions } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { instant, lengthOfTime, queueToFill, someText, someTime, wholeNumber } from './arguments.ts';

/** Options of new tasks that schedules have too. */
export interface GivenFlags {
  readonly maxAttempts?: number;
  readonly backoff?: { readonly initial: number; readonly max: number | undefined };
  readonly deadLetterQueue?: string;
  readonly timeLimit?: number;
  readonly startWithin?: number;
  readonly limitKey?: string;
  readonly kind?: string;
  readonly header?: TaskHeaders;
}

/** Options of new tasks. */
export interface TaskFlags extends GivenFlags {
  readonly mode?: 'collapse' | 'fail' | 'replace' | 'rerun' | 'rerun-first';
  readonly key?: string;
  readonly delay?: number;
  readonly runAt?: Date;
  readonly startBy?: Date;
}

/** `withDeadLetters`: the task may name its dead-letter queue. */
export function addTaskFlags(command: Command, { withDeadLetters = true } = {}): void {
  command
    .option('--key <key>', 'identity of the task apart from its PID, which is then only its order', someText)
    .addOption(modeOption())
    .addOption(new Option('--delay <duration>', 'hide the task for this time').argParser(lengthOfTime))
    .addOption(runAtOption('hide the task until this time'))
    .addOption(
      new Option('--start-by <time>', 'do not run the task if no worker has leased it by this time')
        .argParser(instant)
        .conflicts('startWithin'),
    );
  addGivenFlags(command, { withDeadLetters });
}

/** `withDeadLetters`: as in `addTaskFlags`. */
export function addGivenFlags(command: Command, { withDeadLetters = true } = {}): void {
  for (const option of retryOptions()) {
    if (withDeadLetters || option.long !== '--dead-letter-queue') command.addOption(option);
  }
  const startWithin = new Option(
    '--start-within <duration>',
    'do not run the task if no worker has leased it after this time',
  ).argParser(someTime);
  command
    .addOption(startWithin)
    .addOption(timeLimitOption())
    .option('--limit-key <key>', 'what limits and fair turns count the task by, such as a customer', someText)
    .option('--kind <kind>', 'what a worker must be able to run: a name, or name@version', someText)
    .addOption(headerOption());
}

export const timeLimitOption = (): Option =>
  new Option(
    '--time-limit <duration>',
    'how long one attempt may take; then it has failed (default: that of the queue, or no limit)',
  ).argParser((text) => {
    const ms = lengthOfTime(text);
    if (ms < 1) throw new InvalidArgumentError('A time limit is at least 1ms.');
    return ms;
  });

const headerOption = (): Option =>
  new Option('--header <key=value>', 'header of the task, shown beside its data; may be given many times').argParser(
    collectHeaders,
  );

export const modeOption = (): Option =>
  new Option(
    '--mode <mode>',
    'if the PID is already in the queue: keep that task (collapse), fail, replace its data, or replace it and run a leased task once more (rerun; rerun-first keeps the first data) (default: that of the queue, or collapse)',
  ).choices(['collapse', 'fail', 'replace', 'rerun', 'rerun-first']);

/** What happens to a task whose attempts fail. */
export const retryOptions = (): readonly Option[] => [
  new Option(
    '--max-attempts <n>',
    'attempts before the task goes to the dead-letter queue, or unlimited (default: that of the queue, or 20)',
  ).argParser((text) => (text === 'unlimited' ? Number.POSITIVE_INFINITY : wholeNumber(1, limits.maxAttempts)(text))),
  new Option(
    '--backoff <initial[,max]>',
    'longest delay after the first failed attempt, doubling with each attempt up to max (default: that of the queue, or 1s,1h)',
  ).argParser(backoff),
  new Option(
    '--dead-letter-queue <queue>',
    'queue of the same group for the task after its last attempt (default: that of the queue, or the name followed by .dead)',
  ).argParser(queueToFill),
];

export function taskOptions({ key, mode, delay, runAt, startBy, ...given }: TaskFlags): TaskOptions {
  return { key, mode, delay, runAt, startBy, ...givenOptions(given) };
}

export function givenOptions({
  maxAttempts,
  backoff,
  deadLetterQueue,
  timeLimit,
  startWithin,
  limitKey,
  kind,
  header,
}: GivenFlags): Pick<TaskOptions, 'retry' | 'timeLimit' | 'startWithin' | 'limitKey' | 'kind' | 'headers'> {
  const hasRetry = maxAttempts !== undefined || backoff !== undefined || deadLetterQueue !== undefined;
  const retry = hasRetry ? { maxAttempts, backoff, deadLetterQueue } : undefined;
  return { retry, timeLimit, startWithin, limitKey, kind, headers: header };
}

function collectHeaders(text: string, before: TaskHeaders = {}): TaskHeaders {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError(`'${text}' is not KEY=VALUE.`);
  const key = text.slice(0, at);
  if (Object.hasOwn(before, key)) throw new InvalidArgumentError(`The header ${key} is given twice.`);
  return { ...before, [key]: text.slice(at + 1) };
}

/** `--run-at`, beside which `--delay` is refused. */
export const runAtOption = (what: string): Option =>
  new Option('--run-at <time>', `${what}, as in 2030-01-01T09:00:00Z`).argParser(instant).conflicts('delay');

function backoff(text: string): TaskFlags['backoff'] {
  const [initial, max, ...more] = text.split(',');
  if (initial === undefined || more.length > 0) {
    throw new InvalidArgumentError(`'${text}' is not initial[,max], as in 1s,5m.`);
  }
  return { initial: lengthOfTime(initial), max: max === undefined ? undefined : lengthOfTime(max) };
}
