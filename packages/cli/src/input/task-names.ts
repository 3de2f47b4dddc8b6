import { type ByKey, pidBytes, pidText, type TaskName } from '@taskmaster/client';
import { isByKey } from '@taskmaster/client/internal';
import { type Command, Option } from 'commander';
import { UsageError } from '../views/cli-errors.ts';
import { pid, someText } from './arguments.ts';

/** The flag of a command that takes PIDs or keys. */
export interface KeyFlags {
  readonly key: readonly ByKey[];
}

/** Adds the PIDs and keys of a command. */
export function addTaskNames(command: Command): Command {
  return command
    .argument('[pid...]', 'PIDs of the tasks')
    .addOption(
      new Option('--key <key>', 'name a task by its key instead of its PID; may be given many times')
        .argParser(collectKeys)
        .default([], 'none'),
    );
}

/** The names of the tasks, those by PID first. @throws UsageError if there are none. */
export function taskNames(pids: readonly string[], { key: keys }: KeyFlags): readonly TaskName[] {
  if (pids.length + keys.length === 0) throw new UsageError('give the PIDs of the tasks, or --key');
  return [...pids.map(pid), ...keys];
}

/** A name for people. */
export const nameText = (name: TaskName): string => (isByKey(name) ? `key ${name.key}` : pidText(pidBytes(name)));

/** A name for programs. */
export const nameObject = (name: TaskName): object => (isByKey(name) ? { key: name.key } : { pid: nameText(name) });

const collectKeys = (text: string, before: readonly ByKey[]): readonly ByKey[] => [...before, { key: someText(text) }];
