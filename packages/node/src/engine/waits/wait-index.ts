import { formatQueueName } from '@taskmaster/proto';
import type { Pid } from '@taskmaster/server/domain';
import type { TaskWait } from './task-wait.ts';

/** Waits by the tasks that they name. */
export class WaitIndex {
  /** By full name of the queue, then by PID. */
  readonly #byQueue = new Map<string, Map<Pid, Set<TaskWait>>>();

  add(wait: TaskWait): void {
    for (const { queue, pid } of wait.command.tasks) {
      const name = formatQueueName(queue);
      let byPid = this.#byQueue.get(name);
      if (byPid === undefined) {
        byPid = new Map();
        this.#byQueue.set(name, byPid);
      }
      const waits = byPid.get(pid);
      if (waits === undefined) byPid.set(pid, new Set([wait]));
      else waits.add(wait);
    }
  }

  remove(wait: TaskWait): void {
    for (const { queue, pid } of wait.command.tasks) {
      const name = formatQueueName(queue);
      const byPid = this.#byQueue.get(name);
      const waits = byPid?.get(pid);
      waits?.delete(wait);
      if (waits?.size === 0) byPid?.delete(pid);
      if (byPid?.size === 0) this.#byQueue.delete(name);
    }
  }

  /** Undefined: none. */
  of(queue: string, pid: Pid): ReadonlySet<TaskWait> | undefined {
    return this.#byQueue.get(queue)?.get(pid);
  }

  /** The awaited tasks of a queue. */
  ofQueue(queue: string): Iterable<readonly [Pid, ReadonlySet<TaskWait>]> {
    return this.#byQueue.get(queue) ?? [];
  }
}
