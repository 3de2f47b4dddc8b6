import type { Engine } from '@taskmaster/engine';
import { type LeaseCommand, type LeasedTask, Refusal, giveBack as releaseAll } from '@taskmaster/engine/domain';
import type { Log } from '@taskmaster/engine/ports';
import type { Caller } from '@taskmaster/server/calls';
import { fittingTasks } from '../reply/build-reply.ts';

/**
 * Leases tasks that fit into a reply of `bytes`. Tasks that do not fit, and tasks for a caller that no longer waits, are released
 * immediately, so that they are not hidden until their leases end.
 */
export function leaseWithin<Reply>(
  engine: Engine,
  log: Log,
  command: LeaseCommand,
  caller: Caller,
  bytes: number,
  reply: (tasks: readonly LeasedTask[]) => Reply,
): Promise<Reply> {
  // This is not an async function and makes one promise only, because ten thousand leases may wait.
  return engine.leaseTasks(command, command.waitMs > 0 ? { signal: caller.signal } : undefined).then((tasks) => {
    if (caller.gone) {
      giveBack(engine, log, tasks);
      throw new Refusal('CANCELLED', 'the call was cancelled before the lease was granted');
    }
    const { count } = fittingTasks(tasks, bytes);
    if (count === tasks.length) return reply(tasks);
    giveBack(engine, log, tasks.slice(count));
    return reply(tasks.slice(0, count));
  });
}

/** Releases leased tasks that no worker receives. Does not wait for the result. */
export function giveBack(engine: Engine, log: Log, tasks: readonly LeasedTask[]): void {
  releaseAll((release) => engine.updates.apply(release), tasks)
    // The tasks become available when their leases end.
    .catch((err: unknown) => log.debug({ err }, 'leased tasks could not be released'));
}
