import { encodeToBuffer, GetQueueStatsRequest, GetQueueStatsResponse } from '@taskmaster/proto';
import { Turnstile, type TurnstileOptions } from '@taskmaster/server/calls';
import { getQueueStats } from '../router/reads/cluster-reads.ts';
import type { RoutedCaller, Router } from '../router/routing/router.ts';

/** For patterns: their replies may be large. Groups take turns, because one autoscaler asks for all of them. */
const PATTERNS: TurnstileOptions = { places: 4, ofTenant: 2, ofConnection: 1 };

/** The queues of a trigger. They belong to one group, so one node holds them. */
export interface Selection {
  /** Equal for equal selections. */
  readonly key: string;
  readonly group: string;
  readonly request: GetQueueStatsRequest;
}

/** What a metric may need of some queues. */
export interface Figures {
  /** Available and leased tasks. Those available in paused queues do not count. */
  readonly tasks: number;
  /** Age of the oldest task that is not delayed, in ms. 0: there is none. */
  readonly oldestAgeMs: number;
  /** Number of queues whose age is unknown, because the reply has no room for them. */
  readonly unseenQueues: number;
}

export type ReadFigures = (selection: Selection, caller: RoutedCaller) => Promise<Figures>;

/** Reads figures from the node that holds the queues. Rejects with a `Refusal` if it does not answer. */
export function figuresFrom(router: Router): ReadFigures {
  const patterns = new Turnstile(PATTERNS);
  const ask = async ({ request }: Selection, caller: RoutedCaller): Promise<Figures> => {
    const reply = await getQueueStats(router, encodeToBuffer(GetQueueStatsRequest, request), caller);
    const { queues, totals } = GetQueueStatsResponse.decode(reply);
    const paused = queues.filter(({ pause }) => pause !== undefined);
    const resting = paused.reduce((sum, { available }) => sum + available, 0);
    // A paused queue needs workers only for the tasks that they have.
    const aged = queues.filter(({ pause, leased }) => pause === undefined || leased > 0);
    return {
      tasks: (totals?.available ?? 0) + (totals?.leased ?? 0) - resting,
      oldestAgeMs: aged.reduce((oldest, queue) => Math.max(oldest, queue.oldestAgeMs), 0),
      unseenQueues: Math.max(0, (totals?.queues ?? 0) - queues.length),
    };
  };
  return (selection, caller) =>
    selection.request.filter === undefined
      ? ask(selection, caller)
      : patterns.pass({ tenant: selection.group, connection: selection.key }, () => ask(selection, caller));
}
