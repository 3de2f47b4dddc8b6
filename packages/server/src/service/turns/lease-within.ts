import type { LeaseCommand, LeasedTask, TaskEngine } from '../../domain/commands.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Log } from '../../ports/log.ts';
import type { Caller } from '../caller.ts';
import { fittingTasks } from '../reply/build-reply.ts';
import { giveBack as releaseAll } from './give-back.ts';

/**
 * Leases tasks for a caller who is there to get them, no more than fit into so many bytes of a reply. What was leased
 * beyond that, or for a caller who left meanwhile, is given back at once: nobody should wait for those leases to end.
 */
export function leaseWithin<Reply>(
  engine: TaskEngine,
  log: Log,
  command: LeaseCommand,
  caller: Caller,
  bytes: number,
  reply: (tasks: readonly LeasedTask[]) => Reply,
): Promise<Reply> {
  // No frame, and one promise only: ten thousand that wait would keep them.
  return engine.leaseTasks(command, command.waitMs > 0 ? { signal: caller.signal } : undefined).then((tasks) => {
    if (caller.gone) {
      giveBack(engine, log, tasks);
      throw new Refusal('CANCELLED', 'the caller left before the lease was granted');
    }
    const { count } = fittingTasks(tasks, bytes);
    if (count === tasks.length) return reply(tasks);
    giveBack(engine, log, tasks.slice(count));
    return reply(tasks.slice(0, count));
  });
}

/** Releases tasks that nobody will work on, as if they had never been leased; does not wait for it. */
export function giveBack(engine: TaskEngine, log: Log, tasks: readonly LeasedTask[]): void {
  releaseAll((release) => engine.updateTasks(release), tasks)
    // Without it the leases end by themselves; the tasks are only late.
    .catch((err: unknown) => log.debug({ err }, 'leases that nobody got could not be given back'));
}
