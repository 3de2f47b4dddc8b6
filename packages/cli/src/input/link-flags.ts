import type { ByKey, ParentTask, Pid, SignalWait, TaskOptions } from '@taskmaster/client';
import { limits } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { UsageError } from '../views/cli-errors.ts';
import { pid, queueName, someText, someTime, wholeNumber } from './arguments.ts';

/** What connects a new task with others. */
export interface LinkFlags {
  readonly waitFor?: number;
  readonly waitTimeout?: number;
  readonly onTimeout?: SignalWait['onTimeout'];
  readonly collect?: true;
  readonly parentQueue?: string;
  readonly parentPid?: Pid;
  readonly parentKey?: string;
  readonly onFailure?: ParentTask['onFailure'];
  readonly orderKey?: string;
}

export function addLinkFlags(command: Command): void {
  command
    .option('--order-key <key>', 'run the tasks of the queue with this key one after the other', someText)
    .option('--wait-for <n>', 'make the task wait for n signals', wholeNumber(1, limits.signals))
    .option('--wait-timeout <duration>', 'how long it waits for them (default: as long as it takes)', someTime)
    .addOption(
      new Option('--on-timeout <action>', 'what happens then (default: dead-letter)').choices([
        'dead-letter',
        'run',
        'cancel',
      ]),
    )
    .option('--collect', 'keep the results of the tasks that it waits for')
    .option('--parent-queue <queue>', 'queue of the task that waits for this one (default: the same queue)', queueName)
    .option('--parent-pid <pid>', 'PID of the task that waits for this one', pid)
    .addOption(
      new Option('--parent-key <key>', 'key of the task that waits for this one')
        .argParser(someText)
        .conflicts('parentPid'),
    )
    .addOption(
      new Option(
        '--on-failure <action>',
        'what happens to that task if this one is not completed (default: fail)',
      ).choices(['fail', 'continue', 'retry']),
    );
}

export function linkOptions(queue: string, flags: LinkFlags): Pick<TaskOptions, 'waitsFor' | 'parent' | 'orderKey'> {
  return { waitsFor: waitOf(flags), parent: parentOf(queue, flags), orderKey: flags.orderKey };
}

/** @throws UsageError if flags are given without those that they belong to. */
export function assertLinks(flags: LinkFlags): void {
  const { waitFor, waitTimeout, onTimeout, collect, parentPid, parentKey, parentQueue, onFailure } = flags;
  const isWait = waitTimeout !== undefined || onTimeout !== undefined || collect !== undefined;
  if (waitFor === undefined && isWait) {
    throw new UsageError('--wait-timeout, --on-timeout and --collect go with --wait-for');
  }
  const isParent = parentQueue !== undefined || onFailure !== undefined;
  if (parentPid === undefined && parentKey === undefined && isParent) {
    throw new UsageError('--parent-queue and --on-failure go with --parent-pid or --parent-key');
  }
}

function waitOf({ waitFor: signals, waitTimeout: timeout, onTimeout, collect }: LinkFlags): SignalWait | undefined {
  return signals === undefined ? undefined : { signals, timeout, onTimeout, collect };
}

function parentOf(queue: string, { parentQueue, parentPid, parentKey, onFailure }: LinkFlags): ParentTask | undefined {
  const task: Pid | ByKey | undefined = parentKey === undefined ? parentPid : { key: parentKey };
  return task === undefined ? undefined : { queue: parentQueue ?? queue, task, onFailure };
}
