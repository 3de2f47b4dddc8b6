import { Refusal } from '@taskmaster/engine/domain';
import {
  encodeToBuffer,
  GetOverviewResponse,
  GetQueueStatsRequest,
  GetQueueStatsResponse,
  ListQueuesResponse,
  ListSchedulesResponse,
  limits,
  methods,
  type QueuePlace,
  QueueStats,
  type QueueTotals,
} from '@taskmaster/proto';
import { REPLY_BYTES } from '@taskmaster/server/calls';
import {
  decodeCall,
  pageTokenBehind,
  parseList,
  parseListSchedules,
  parsePlaceToken,
  parseStats,
} from '@taskmaster/server/requests';
import { writeEntries } from '../../upstream/raw-codec.ts';
import type { SendFailure } from '../../upstream/sender.ts';
import type { UnaryMethod } from '../../upstream/upstream.ts';
import type { RoutedCall, RoutedCaller, Router } from '../routing/router.ts';
import { askAll } from './fan-out.ts';
import {
  addTotals,
  type ListedPage,
  listedByTrouble,
  listedQueues,
  listedSchedules,
  mergeItems,
  mergePages,
  withinReply,
} from './merge.ts';

/** Answers ListQueues: one page of the queues of all nodes. */
export async function listQueues(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeCall(methods.listQueues, bytes);
  const { limit, filter, order } = parseList(request);
  // Nodes leave out what the caller may not read.
  if (filter.group !== undefined) caller.access.require('read', filter.group);
  if (filter.group !== undefined) return ofGroup(router, 'ListQueues', filter.group, bytes, caller);

  const { replies, unreachable } = await askAll(router, 'ListQueues', bytes, ListQueuesResponse, caller);
  const pages = replies.map(({ queues, nextPageToken }) => pageOf(queues, nextPageToken));
  const { items, end } = mergePages(pages, limit, order === 'trouble' ? listedByTrouble : listedQueues);
  const rest = encodeToBuffer(ListQueuesResponse, { queues: [], nextPageToken: tokenOf(end), unreachable });
  return Buffer.concat([writeEntries(items), rest]);
}

/** Answers ListSchedules: one page of the schedules of all nodes, or those of one group. */
export async function listSchedules(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeCall(methods.listSchedules, bytes);
  const { limit, group } = parseListSchedules(request);
  if (group !== undefined) caller.access.require('read', group);
  if (group !== undefined) return ofGroup(router, 'ListSchedules', group, bytes, caller);

  const { replies, unreachable } = await askAll(router, 'ListSchedules', bytes, ListSchedulesResponse, caller);
  const pages = replies.map(({ schedules, nextPageToken }) => pageOf(schedules, nextPageToken));
  const { items, end } = mergePages(pages, limit, listedSchedules);
  const rest = encodeToBuffer(ListSchedulesResponse, { schedules: [], nextPageToken: tokenOf(end), unreachable });
  return Buffer.concat([writeEntries(items), rest]);
}

/** A page of a node. A damaged page token is refused. */
function pageOf<T>(items: readonly T[], nextPageToken: string): ListedPage<T> {
  return { items, end: parsePlaceToken(nextPageToken) };
}

const tokenOf = (end: QueuePlace | undefined): string => (end === undefined ? '' : pageTokenBehind(end));

/** Answers GetOverview: what each node says. */
export async function getOverview(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const { includeChanges } = decodeCall(methods.getOverview, bytes);
  caller.access.requireIdentity();
  if (includeChanges) caller.access.requireCluster('manage-cluster');
  const { replies, unreachable } = await askAll(router, 'GetOverview', bytes, GetOverviewResponse, caller);
  return encodeToBuffer(GetOverviewResponse, { nodes: replies.flatMap(({ nodes }) => nodes), unreachable });
}

/** Answers GetQueueStats, from the holders of the queues. */
export async function getQueueStats(router: Router, bytes: Buffer, caller: RoutedCaller): Promise<Uint8Array> {
  const request = decodeCall(methods.getQueueStats, bytes);
  const command = parseStats(request);
  if (command.kind === 'named') {
    for (const { group } of command.queues) caller.access.require('read', group);
    return namedStats(router, request, caller);
  }
  if (command.filter.group !== undefined) caller.access.require('read', command.filter.group);
  if (command.filter.group !== undefined) return ofGroup(router, 'GetQueueStats', command.filter.group, bytes, caller);

  const { replies, unreachable } = await askAll(router, 'GetQueueStats', bytes, GetQueueStatsResponse, caller);
  const all = mergeItems(
    replies.map(({ queues }) => queues),
    listedQueues,
  );
  const entries = withinReply(all.slice(0, limits.listQueues), listedQueues);
  const totals = addTotals(replies.map((reply) => reply.totals));
  const rest = encodeToBuffer(GetQueueStatsResponse, { queues: [], totals, unreachable });
  return Buffer.concat([writeEntries(entries), rest]);
}

/** Sends a request about one group to the node that holds it. */
function ofGroup(
  router: Router,
  method: UnaryMethod,
  group: string,
  bytes: Buffer,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  const partition = router.partitionOfQueue(`${group}#`);
  return router.toHolder(partition, { method, request: () => bytes, repetition: 'read' }, caller);
}

/** Asks each holder for its own queues. The reply has them in the order of the request. */
async function namedStats(
  router: Router,
  { queues: names, includeWatch }: GetQueueStatsRequest,
  caller: RoutedCaller,
): Promise<Uint8Array> {
  const queues: QueueStats[] = [];
  const ask = async (places: readonly number[], send: Send): Promise<QueueTotals | undefined> => {
    const asked = places.map((place) => names[place] ?? '');
    const request = encodeToBuffer(GetQueueStatsRequest, { queues: asked, filter: undefined, includeWatch });
    const reply = await send({ method: 'GetQueueStats', request: () => request, repetition: 'read' });
    if (reply === undefined) return undefined;
    const stats = GetQueueStatsResponse.decode(reply);
    for (const [at, place] of places.entries()) queues[place] = stats.queues[at] ?? nothingOf(names[place] ?? '');
    return stats.totals;
  };
  const partitionAt = (place: number): number => router.partitionOfQueue(names[place] ?? '');
  const askHolder = async (address: string | undefined, places: readonly number[]): Promise<QueueTotals> => {
    const totals = address && (await ask(places, (call) => successOf(router.send(address, call, caller))));
    if (totals) return totals;
    // Some partitions have moved, or the node does not answer. Each partition is followed separately.
    const byPartition = Map.groupBy(places, partitionAt);
    const parts = [...byPartition].map(([partition, some]) =>
      ask(some, (call) => router.toHolder(partition, call, caller)),
    );
    return addTotals(await Promise.all(parts));
  };
  const byHolder = Map.groupBy(names.keys(), (place) => router.routes.holderOf(partitionAt(place))?.address);
  const parts = await Promise.all([...byHolder].map(([address, places]) => askHolder(address, places)));
  const entries = withinReply(queues, listedQueues);
  if (entries.length < queues.length) {
    throw new Refusal('TOO_MANY_ITEMS', `queues: the reply would exceed ${REPLY_BYTES} bytes; name fewer queues`, {
      metadata: { field: 'queues', limit: String(REPLY_BYTES) },
    });
  }
  const rest = encodeToBuffer(GetQueueStatsResponse, { queues: [], totals: addTotals(parts), unreachable: [] });
  return Buffer.concat([writeEntries(entries), rest]);
}

type Send = (call: RoutedCall) => Promise<Uint8Array | undefined>;

async function successOf(outcome: Promise<Uint8Array | SendFailure>): Promise<Uint8Array | undefined> {
  const settled = await outcome;
  return settled instanceof Uint8Array ? settled : undefined;
}

function nothingOf(queue: string): QueueStats {
  return { ...QueueStats.decode(new Uint8Array(0)), queue };
}
