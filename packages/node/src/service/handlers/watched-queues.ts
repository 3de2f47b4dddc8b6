import type { Engine } from '@taskmaster/engine';
import type { ListCommand, QueueFilter, QueueStats } from '@taskmaster/engine/domain';
import {
  comparePlaces,
  formatQueueName,
  type ListQueuesResponse,
  limits,
  parseQueueName,
  placeOf,
} from '@taskmaster/proto';
import { readableOnly, type TaskHandlers } from '@taskmaster/server/calls';
import { pageTokenBehind, parseList, parseStats, type QueueListing } from '@taskmaster/server/requests';
import { listReply, statsReply, statsWithin } from '../reply/build-reply.ts';
import type { Look, QueueWatch } from '../watch/queue-watch.ts';

/** The methods that say what the node has seen of its queues. */
export function watchedQueueHandlers(
  engine: Pick<Engine, 'listQueues' | 'queueStats'>,
  watch: QueueWatch,
): Pick<TaskHandlers, 'listQueues' | 'getQueueStats' | 'getOverview'> {
  return {
    async listQueues(request, { access }) {
      const asked = parseList(request);
      const { order, limit, includeEmpty, withWatch } = asked;
      const filter = readableOnly(access, asked.filter);
      if (order === 'trouble') return listByTrouble(engine, watch, { ...asked, filter });
      const page = await engine.listQueues({ filter, limit, after: asked.after, includeEmpty });
      return listReply(page, withWatch ? await watched(watch) : undefined);
    },
    async getQueueStats(request, { access }) {
      const command = parseStats(request);
      if (command.kind === 'named') {
        for (const { group } of command.queues) access.require('read', group);
      }
      const readable =
        command.kind === 'named' ? command : { ...command, filter: readableOnly(access, command.filter) };
      const report = await engine.queueStats(readable);
      return statsReply(report, command.kind, request.includeWatch === true ? await watched(watch) : undefined);
    },
    async getOverview(request, { access }) {
      access.requireIdentity();
      if (request.includeChanges) access.requireCluster('manage-cluster');
      const node = await watch.overview(request, (group) => access.allows('read', group));
      return { nodes: [node], unreachable: [] };
    },
  };
}

/** A reply has samples kept of its first queues only, so that one does not end those of all others. */
const MOST_KEPT = 200;

/** What is known of a queue with these statistics. */
type WatchOf = (queue: string, stats: QueueStats) => ReturnType<QueueWatch['of']>;

function watchOf(watch: QueueWatch, look: Look): WatchOf {
  let kept = 0;
  return (queue, stats) => watch.of(queue, stats, look, kept++ < MOST_KEPT);
}

const watched = async (watch: QueueWatch): Promise<WatchOf> => watchOf(watch, await watch.look());

type ByTrouble = Extract<QueueListing, { order: 'trouble' }>;

/** First queues with trouble, then the others by name. */
async function listByTrouble(
  engine: Reads,
  watch: QueueWatch,
  { filter, limit, after }: ByTrouble,
): Promise<ListQueuesResponse> {
  const look = await watch.look();
  // One more than fits into the page tells whether there is another page.
  const found = after?.rank === 0 ? [] : await troubled(engine, look, { filter, limit: limit + 1, after });
  if (found.length <= limit) {
    const behind = after?.rank === 0 ? parseQueueName(after.queue) : undefined;
    found.push(...(await untroubled(engine, look, { filter, limit: limit + 1 - found.length, after: behind })));
  }
  const queues = statsWithin(found.slice(0, limit), watchOf(watch, look));
  const last = queues.at(-1);
  const end = queues.length < found.length ? last : undefined;
  return { queues, nextPageToken: end === undefined ? '' : pageTokenBehind(placeOf(end)), unreachable: [] };
}

type Reads = Pick<Engine, 'listQueues' | 'queueStats'>;

/** Queues with trouble behind a place, the worst first. */
async function troubled(
  engine: Reads,
  { places }: Look,
  { filter, limit, after }: Pick<ByTrouble, 'filter' | 'limit' | 'after'>,
): Promise<QueueStats[]> {
  const behind = places.filter((place) => after === undefined || comparePlaces(after, place) < 0);
  if (filter.matches !== undefined) {
    // The engine matches many names in turns, so that an expression does not hold up others.
    const wanted = new Map(behind.map(({ queue }, rank) => [queue, rank]));
    const rankOf = ({ queue }: QueueStats): number => wanted.get(formatQueueName(queue)) ?? 0;
    const only = { filter: restricted(filter, wanted), limit: limits.listQueues, after: undefined };
    const { queues } = await engine.listQueues(only);
    return queues.toSorted((a, b) => rankOf(a) - rankOf(b)).slice(0, limit);
  }
  const { group } = filter;
  const names = behind
    .map(({ queue }) => parseQueueName(queue))
    .filter((name) => group === undefined || name.group === group);
  const found: QueueStats[] = [];
  for (let from = 0; from < names.length && found.length < limit; from += limit) {
    const { queues } = await engine.queueStats({ kind: 'named', queues: names.slice(from, from + limit) });
    // Some may be gone since the look.
    found.push(...queues.filter((stats) => sizeOf(stats) > 0 && isWithin(stats, filter)));
  }
  return found.slice(0, limit);
}

/** The other queues, by name. */
async function untroubled(
  engine: Reads,
  { troubles }: Look,
  { filter, limit, after }: Pick<ListCommand, 'filter' | 'limit' | 'after'>,
): Promise<QueueStats[]> {
  const found: QueueStats[] = [];
  let behind = after;
  do {
    const page = await engine.listQueues({ filter, limit: Math.max(limit, LEAST_PAGE), after: behind });
    found.push(...page.queues.filter(({ queue }) => !troubles.has(formatQueueName(queue))));
    behind = page.more ? page.queues.at(-1)?.queue : undefined;
  } while (behind !== undefined && found.length < limit);
  return found.slice(0, limit);
}

/** Queues that are read at once, because many of them may have trouble. */
const LEAST_PAGE = 1_000;

const sizeOf = ({ available, leased, delayed }: QueueStats): number => available + leased + delayed;

const between = (value: number, least: number | undefined, most: number | undefined): boolean =>
  (least === undefined || value >= least) && (most === undefined || value <= most);

const isWithin = ({ available, leased, delayed }: QueueStats, filter: QueueFilter): boolean =>
  between(available, filter.minAvailable, filter.maxAvailable) &&
  between(leased, filter.minLeased, filter.maxLeased) &&
  between(delayed, filter.minDelayed, filter.maxDelayed);

/** The filter, restricted to some of the queues. */
function restricted(filter: QueueFilter, wanted: ReadonlyMap<string, unknown>): QueueFilter {
  const { matches } = filter;
  return { ...filter, matches: (queue) => wanted.has(queue) && (matches === undefined || matches(queue)) };
}
