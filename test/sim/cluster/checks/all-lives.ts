import type { CallOf, HistoryEvent, LeasedReply } from '@taskmaster/cli/testing/history';

type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

type Enqueue = CallOf<'update'>['enqueue'][number];

interface Lease extends LeasedReply {
  readonly event: LeaseEvent;
}

/**
 * Checks that must hold even for a partition that was lost and restarted empty:
 *
 *  (h) the lease tokens of a PID grow, also across such losses; every task that is leased from a queue was enqueued there, or
 *      its retry policy names that queue as its dead-letter queue.
 */
export function acrossLives(events: readonly HistoryEvent[]): string[] {
  const queuesOf = new Map<string, readonly string[]>();
  for (const { call } of events) {
    if (call.kind === 'update') for (const item of call.enqueue) queuesOf.set(item.data, queuesFor(item));
  }
  const byPid = new Map<string, Lease[]>();
  const wrong: string[] = [];
  for (const event of events) {
    if (!isLease(event) || event.outcome.kind !== 'leased') continue;
    for (const task of event.outcome.tasks) {
      const { queue, pid, data } = task;
      if (queuesOf.get(data)?.includes(queue) !== true)
        wrong.push(`(h) #${event.id} leased from ${queue} a task that was enqueued in ${queuesOf.get(data)?.[0]}`);
      const key = `${queue} ${pid}`;
      const leases = byPid.get(key) ?? [];
      byPid.set(key, leases);
      leases.push({ ...task, event });
    }
  }
  for (const [pid, leases] of byPid) wrong.push(...goingBack(pid, leases));
  return wrong;
}

function queuesFor({ queue, retry }: Enqueue): string[] {
  const [group = ''] = queue.split('#');
  return retry === undefined || retry.deadLetterQueue === '' ? [queue] : [queue, `${group}#${retry.deadLetterQueue}`];
}

function goingBack(pid: string, leases: readonly Lease[]): string[] {
  return leases.flatMap((lease) =>
    leases
      .filter(({ event, token }) => event.calledSeq > lease.event.endedSeq && token <= lease.token)
      .map(
        (later) =>
          `(h) ${pid} had token ${lease.token} by #${lease.event.id}, then ${later.token} by #${later.event.id}`,
      ),
  );
}

const isLease = (event: HistoryEvent): event is LeaseEvent => event.call.kind === 'lease';
