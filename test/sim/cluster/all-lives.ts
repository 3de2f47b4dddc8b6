import type { CallOf, HistoryEvent, LeasedReply } from '../../support/history.ts';

type LeaseEvent = HistoryEvent<CallOf<'lease'>>;

type Enqueue = CallOf<'update'>['enqueue'][number];

interface Lease extends LeasedReply {
  readonly event: LeaseEvent;
}

/**
 * What holds also where a partition was lost and began anew:
 *
 *  (h) the lease tokens of a PID grow, over all of its lives; and whatever is leased from a queue was enqueued there, or
 *      its retry policy names the queue for its dead letters.
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
        wrong.push(`(h) #${event.id} leased from ${queue} what was put into ${queuesOf.get(data)?.[0]}`);
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
