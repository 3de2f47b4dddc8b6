import type { LeasedTask, ReleaseItem, UpdateCommand } from './commands.ts';
import { Refusal, UpdateRefusal } from './refusal.ts';

const REFUND = {
  delayMs: 0,
  runAt: undefined,
  refundAttempt: true,
  error: undefined,
  deadLetter: false,
  waiting: false,
} as const;

/**
 * Releases leased tasks that no worker receives, and refunds their attempts. Tasks that have changed since are skipped. If the
 * release fails, the tasks become available when their leases end.
 */
export async function giveBack(
  update: (command: UpdateCommand) => Promise<unknown>,
  leased: readonly LeasedTask[],
): Promise<void> {
  for (const [group, tasks] of Map.groupBy(leased, ({ queue }) => queue.group)) {
    let release = tasks.map(({ queue, pid, token }): ReleaseItem => ({ queue, pid, token, ...REFUND }));
    while (release.length > 0) {
      try {
        await update({ group, enqueue: [], dequeue: [], renew: [], release, publishes: false, requestId: undefined });
        break;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (!(error instanceof UpdateRefusal)) return;
        const changed = new Set(error.items.map(({ index }) => index));
        release = release.filter((_item, index) => !changed.has(index));
      }
    }
  }
}
