import { QueueFilter, QueueOrder, type QueueStats, type UnreachableNode } from '@taskmaster/proto/messages';
import { type SortKey, sortQueues } from '../show/trouble.ts';
import type { Overview } from './overview.ts';
import { call, make, readJson } from './rpc.ts';

/** Queues of one reply, where the server orders them. */
const PAGE = 200;
/** Queues of one reply, where the page needs all of them. */
const WHOLE_PAGE = 10_000;
/** The next page is asked for when the last so many rows can be seen. */
const AHEAD = 50;
/** All queues are listed again after so many times the time that it took, at least in each poll. */
const SHARE = 20;
const LEAST_MS = 1_500;
/** Rows that are asked for between two listings. */
const MOST_NAMED = 100;
const TOTAL_MS = 10_000;

export interface QueueSelection {
  /** An expression for full names. Empty: all queues. */
  readonly search: string;
  readonly group: string | undefined;
  readonly sort: SortKey;
}

/** The rows that can be seen. */
export interface VisibleRows {
  readonly from: number;
  readonly to: number;
}

/** What is known of the queues at a moment. */
export interface ListedQueues {
  readonly queues: readonly QueueStats[];
  readonly unreachable: readonly UnreachableNode[];
  /** False: there are more, and they are listed when they are needed. */
  readonly isWhole: boolean;
  /** Number of all queues of the cluster. Undefined: it is not known, or only some are asked for. */
  readonly total: number | undefined;
  /** When their order was made, by the clock of the browser. */
  readonly orderedAt: number;
}

/**
 * Follows the queues that a user looks at. The server orders them by trouble or by name, and gives them in pages. For another
 * order the page lists all of them; where that takes long, only the rows that can be seen are asked for between two listings.
 */
export class QueueListing {
  readonly #filter: QueueFilter;
  readonly #selection: QueueSelection;
  #listed: ListedQueues | undefined;
  #next = '';
  #tookMs = 0;
  #total: { readonly at: number; readonly queues: number } | undefined;

  constructor(selection: QueueSelection) {
    const { search, group } = selection;
    this.#selection = selection;
    this.#filter = make(QueueFilter, { nameRegex: search, ...(group !== undefined && { group }) });
  }

  /** Brings it up to date. `publish`: gets what is there before all of it is. */
  async update(
    visible: VisibleRows,
    signal: AbortSignal,
    publish: (part: ListedQueues) => void,
  ): Promise<ListedQueues> {
    const { sort } = this.#selection;
    this.#listed =
      sort === 'trouble' || sort === 'name'
        ? await this.#ordered(visible, signal, publish)
        : await this.#whole(visible, signal, publish);
    return this.#listed;
  }

  /** The first page again, or the rows that can be seen, and the next page if its rows will be seen soon. */
  async #ordered(
    visible: VisibleRows,
    signal: AbortSignal,
    publish: (part: ListedQueues) => void,
  ): Promise<ListedQueues> {
    const known = this.#listed;
    let listed: ListedQueues;
    if (known === undefined || visible.from < PAGE / 2) {
      const reply = await this.#page('', PAGE, signal);
      const onPage = new Set(reply.queues.map(({ queue }) => queue));
      const others = known?.queues.slice(PAGE).filter(({ queue }) => !onPage.has(queue)) ?? [];
      if (others.length === 0) this.#next = reply.nextPageToken;
      listed = {
        queues: [...reply.queues, ...others],
        unreachable: reply.unreachable,
        isWhole: this.#next === '',
        total: this.#total?.queues,
        orderedAt: Date.now(),
      };
    } else listed = await patched(known, visible, signal);
    if (visible.to > listed.queues.length - AHEAD && this.#next !== '' && visible.to > 0) {
      if (known !== undefined) publish(listed);
      const { queues, nextPageToken } = await this.#page(this.#next, PAGE, signal);
      this.#next = nextPageToken;
      const there = new Set(listed.queues.map(({ queue }) => queue));
      const more = queues.filter(({ queue }) => !there.has(queue));
      listed = { ...listed, queues: [...listed.queues, ...more], isWhole: nextPageToken === '' };
    }
    return { ...listed, total: await this.#totalOf(listed, signal) };
  }

  /** All queues, or the rows that can be seen if all were listed not long ago. */
  async #whole(
    visible: VisibleRows,
    signal: AbortSignal,
    publish: (part: ListedQueues) => void,
  ): Promise<ListedQueues> {
    const known = this.#listed;
    if (known !== undefined && Date.now() - known.orderedAt <= Math.max(LEAST_MS, this.#tookMs * SHARE)) {
      return await patched(known, visible, signal);
    }
    const begun = Date.now();
    const found: QueueStats[] = [];
    const unreachable = new Map<string, UnreachableNode>();
    const listed = (isWhole: boolean): ListedQueues => ({
      queues: sortQueues(found, this.#selection.sort),
      unreachable: [...unreachable.values()],
      isWhole,
      total: undefined,
      orderedAt: Date.now(),
    });
    for (let token = ''; ; ) {
      const reply = await this.#page(token, WHOLE_PAGE, signal);
      found.push(...reply.queues);
      for (const node of reply.unreachable) unreachable.set(node.nodeId, node);
      token = reply.nextPageToken;
      if (token === '') break;
      if (known === undefined) publish(listed(false));
    }
    this.#tookMs = Date.now() - begun;
    return listed(true);
  }

  #page(pageToken: string, limit: number, signal: AbortSignal) {
    const order =
      this.#selection.sort === 'trouble' ? QueueOrder.QUEUE_ORDER_TROUBLE : QueueOrder.QUEUE_ORDER_UNSPECIFIED;
    const includeWatch = limit === PAGE;
    return call('ListQueues', { filter: this.#filter, limit, pageToken, order, includeWatch }, signal);
  }

  /** How many queues there are, if not all are listed and all are asked for. */
  async #totalOf({ isWhole }: ListedQueues, signal: AbortSignal): Promise<number | undefined> {
    const { search, group } = this.#selection;
    if (isWhole || search !== '' || group !== undefined) return undefined;
    if (this.#total === undefined || Date.now() - this.#total.at > TOTAL_MS) {
      // The overview is made for all pages together. No samples are needed.
      const { totals } = await readJson<Overview>(`overview?after=${Date.now()}`, signal);
      this.#total = { at: Date.now(), queues: totals.queues };
    }
    return this.#total.queues;
  }
}

async function patched(known: ListedQueues, visible: VisibleRows, signal: AbortSignal): Promise<ListedQueues> {
  const names = known.queues.slice(visible.from, visible.to).map(({ queue }) => queue);
  if (names.length === 0) return known;
  const reply = await call('GetQueueStats', { queues: names.slice(0, MOST_NAMED), includeWatch: true }, signal);
  const fresh = new Map(reply.queues.map((stats) => [stats.queue, stats]));
  return { ...known, queues: known.queues.map((stats) => fresh.get(stats.queue) ?? stats) };
}
