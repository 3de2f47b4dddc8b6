import { Refusal } from '@taskmaster/engine/domain';
import {
  type Member,
  MemberRole,
  MemberState,
  type MethodKey,
  methods,
  type NodeOverview,
  type Partition,
  PartitionState,
  parseQueueName,
  type ReplyOf,
  type RequestOf,
  TroubleSeverity,
  type UnreachableNode,
} from '@taskmaster/proto';
import { type CallerAccess, clusterAccess } from '../access/caller-access.ts';
import type { UnaryCaller, UnaryHandler } from '../calls/raw-service.ts';
import type { RoutedNode } from '../ports/routes.ts';
import { type Change, changesOf } from './overview-changes.ts';
import { ClusterSamples } from './overview-history.ts';
import { numberOf, refusalOfQuery } from './query.ts';
import { jsonReply, type Reply } from './reply.ts';

/** An overview is used again for this long, in ms. */
const FRESH_MS = 1_000;
/** A node that has not answered within this time is named as unreachable, in ms. */
const PATIENCE_MS = 3_000;
/** How often it is looked who is alive, in ms. */
const LOOK_MS = 1_000;
/** As the alert ClockDifference, in ms. */
const CLOCK_MS = 60_000;

/** Where an overview comes from. */
export interface OverviewDeps {
  readonly servedBy: () => { readonly role: 'node' | 'proxy'; readonly name: string };
  /** The methods of this program for the whole cluster. Throws a `Refusal` while it starts. */
  readonly methods: () => Readonly<Record<string, UnaryHandler>>;
  /** The members that may hold partitions, as gossip knows them. */
  readonly nodes: () => readonly RoutedNode[];
  /** How far the system clocks of other members are ahead of this one. */
  readonly clocks: () => readonly { readonly nodeId: string; readonly member: string; readonly aheadMs: number }[];
  /** The system clock, in ms since 1970. */
  readonly wall: () => number;
  /** The last lines of the audit log of this program about changes, if it is not among the nodes. Default: none. */
  readonly changes?: () => readonly string[];
}

type Severity = 'warning' | 'critical';

/** Something that people should look at. */
interface Attention {
  readonly severity: Severity;
  readonly kind: string;
  /** The name of a queue or of a member. */
  readonly subject: string;
  readonly message: string;
  readonly since: number;
  readonly sinceIsExact: boolean;
  readonly queue?: string;
  readonly member?: string;
}

/** When something began, in ms since 1970. */
interface Beginning {
  readonly at: number;
  readonly isExact: boolean;
}

/** What all pages get, but for the queues that a caller may not read. */
interface Snapshot {
  readonly at: number;
  readonly facts: object;
  readonly attention: readonly Attention[];
  /** Whether a node has named only some of the queues with trouble. */
  readonly isCut: boolean;
}

/**
 * The overview of the cluster for the console. It is made at most once a second, for all pages together, and not at all while
 * nobody asks. Meanwhile it only remembers which members are alive, as gossip tells it.
 */
export class Overview {
  readonly #deps: OverviewDeps;
  readonly #samples = new ClusterSamples();
  readonly #alive = new Map<string, Beginning & { readonly alive: boolean }>();
  /** Since when something was found while somebody asked. */
  readonly #found = new Map<string, Beginning>();
  #last: Snapshot | undefined;
  #making: Promise<Snapshot> | undefined;
  #isWatching = false;
  /** By principal. Only if the overview of all is cut. */
  readonly #own = new Map<
    string,
    { readonly at: number; readonly attention: Promise<readonly Attention[] | undefined> }
  >();
  #lastChanges: { readonly at: number; readonly changes: Promise<readonly Change[]> } | undefined;

  constructor(deps: OverviewDeps) {
    this.#deps = deps;
  }

  /** Remembers who is alive, until it is disposed of. */
  watch(): Disposable {
    const timer = setInterval(() => this.look(), LOOK_MS).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  /** Looks which members are alive. */
  look(): void {
    const now = this.#deps.wall();
    const nodes = this.#deps.nodes();
    const ids = new Set(nodes.map(({ nodeId }) => nodeId));
    for (const id of this.#alive.keys()) if (!ids.has(id)) this.#alive.delete(id);
    for (const { nodeId, alive } of nodes) {
      if (this.#alive.get(nodeId)?.alive === alive) continue;
      this.#alive.set(nodeId, { alive, at: now, isExact: this.#isWatching });
    }
    // What is so at the first look may have been so before.
    if (nodes.length > 0) this.#isWatching = true;
  }

  /**
   * `GET /api/overview`. `after`: samples behind this instant, in ms since 1970. `changes=1`: with the last changes, for callers
   * that may manage the cluster.
   */
  async reply(query: URLSearchParams, access: CallerAccess): Promise<Reply> {
    const refusal = refusalOfQuery(query, PARAMETERS);
    if (refusal !== undefined) return refusal;
    const after = numberOf(query.get('after') ?? '0');
    if (Number.isNaN(after)) {
      throw new Refusal('INVALID_ARGUMENT', 'after must be a whole number of ms since 1970', {
        metadata: { field: 'after' },
      });
    }
    const changes = query.get('changes') === '1' && mayManage(access) ? await this.#changes() : undefined;
    const { at, facts, ...all } = await this.#fresh();
    const attention = await this.#attentionFor(access, all);
    const history = this.#samples.sums(after);
    const body = { at, ...facts, attention, history, ...(changes && { changes }) };
    return { ...jsonReply(body), isCompressible: true };
  }

  /** The queues of a caller that may not read all may be among those that nodes have left out for worse ones. */
  async #attentionFor(
    access: CallerAccess,
    { attention, isCut }: Pick<Snapshot, 'attention' | 'isCut'>,
  ): Promise<readonly Attention[]> {
    const mayRead = ({ queue }: Attention): boolean =>
      queue === undefined || access.allows('read', parseQueueName(queue).group);
    if (!isCut || access.isUnlimited) return attention.filter(mayRead);
    const ofMembers = attention.filter(({ queue }) => queue === undefined);
    const isOfQueue = ({ queue }: Attention): boolean => queue !== undefined;
    // Without an answer, what is known for all is better than nothing.
    const own = (await this.#ownQueues(access)) ?? attention;
    return [...ofMembers, ...own.filter(isOfQueue).filter(mayRead)].sort(bySeverity);
  }

  /** What nodes say of the queues that a caller may read. They are asked at most once a second for each principal. */
  #ownQueues(access: CallerAccess): Promise<readonly Attention[] | undefined> {
    const now = this.#deps.wall();
    const isFresh = (at: number): boolean => now >= at && now - at < FRESH_MS;
    for (const [principal, { at }] of this.#own) if (!isFresh(at)) this.#own.delete(principal);
    let own = this.#own.get(access.principal);
    if (own === undefined) {
      const found = this.#ask('getOverview', NO_SAMPLES, access).then(
        ({ nodes }) => nodes.flatMap(attentionOf),
        () => undefined,
      );
      own = { at: now, attention: found };
      this.#own.set(access.principal, own);
    }
    return own.attention;
  }

  async #fresh(): Promise<Snapshot> {
    const now = this.#deps.wall();
    if (this.#last !== undefined && now >= this.#last.at && now - this.#last.at < FRESH_MS) return this.#last;
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  async #make(): Promise<Snapshot> {
    this.look();
    const now = this.#deps.wall();
    const [overview, listed, placed] = await Promise.allSettled([
      this.#ask('getOverview', { afterUnixMs: this.#samples.after, includeChanges: false }),
      this.#ask('listMembers', {}),
      this.#ask('listPartitions', {}),
    ]);
    // A node without a cluster has no members.
    const members = listed.status === 'fulfilled' ? listed.value.members.filter(isPresent) : [];
    if (overview.status === 'rejected' && members.length === 0) throw overview.reason;
    const { nodes, unreachable } =
      overview.status === 'fulfilled' ? overview.value : { nodes: [], unreachable: unreachableOf(members) };
    const found = await this.#withHistory(nodes);
    const partitions = placed.status === 'fulfilled' ? placed.value.partitions : undefined;
    const attention = [
      ...this.#ofMembers(members, unreachable, now),
      ...this.#ofPartitions(partitions ?? [], members, now),
      ...this.#ofClocks(now),
      ...found.flatMap(attentionOf),
    ].sort(bySeverity);
    this.#forget(attention, unreachable);
    const facts = {
      servedBy: this.#deps.servedBy(),
      members: members.map((member) => this.#memberOf(member, found)),
      unreachable: unreachable.map((node) => this.#unreachableOf(node, now)),
      partitions: partitionsOf(partitions),
      totals: totalsOf(found),
    };
    this.#last = { at: now, facts, attention, isCut: found.some(isCut) };
    return this.#last;
  }

  /** At most once a second, too. */
  async #changes(): Promise<readonly Change[]> {
    const now = this.#deps.wall();
    if (this.#lastChanges === undefined || now < this.#lastChanges.at || now - this.#lastChanges.at >= FRESH_MS) {
      const { servedBy, changes: own = () => [] } = this.#deps;
      const changes = this.#ask('getOverview', { ...NO_SAMPLES, includeChanges: true })
        .catch(nothing)
        .then(({ nodes }) => changesOf([...nodes, { name: servedBy().name, changes: own() }]));
      this.#lastChanges = { at: now, changes };
    }
    return this.#lastChanges.changes;
  }

  /** Remembers the samples. If a node was asked for too few of them, all nodes are asked again for all. */
  async #withHistory(nodes: readonly NodeOverview[]): Promise<readonly NodeOverview[]> {
    const isAskedAgain = this.#samples.after > 0 && nodes.some((node) => this.#samples.isBehind(keyOf(node)));
    const request = { afterUnixMs: 0, includeChanges: false };
    const all = isAskedAgain ? (await this.#ask('getOverview', request).catch(nothing)).nodes : [];
    for (const node of [...nodes, ...all]) if (node.history !== undefined) this.#samples.add(keyOf(node), node.history);
    this.#samples.answered(new Set(nodes.map(keyOf)), this.#deps.wall());
    return nodes;
  }

  /** With the rights of the cluster itself, for all pages together, unless a caller is named. */
  async #ask<K extends MethodKey>(key: K, request: RequestOf<K>, access = clusterAccess): Promise<ReplyOf<K>> {
    const { name, requestSerialize, responseDeserialize } = methods[key] as {
      readonly name: string;
      readonly requestSerialize: (request: RequestOf<K>) => Buffer;
      readonly responseDeserialize: (bytes: Uint8Array) => ReplyOf<K>;
    };
    const { [name]: handler } = this.#deps.methods();
    if (handler === undefined) throw new TypeError(`the program has no ${name}`);
    return responseDeserialize(await handler(requestSerialize(request), callerWith(access)));
  }

  #ofMembers(members: readonly Member[], unreachable: readonly UnreachableNode[], now: number): Attention[] {
    const nodes = members.filter(({ role, state }) => role === MemberRole.MEMBER_ROLE_NODE && state !== JOINING);
    const down = nodes.filter(({ alive }) => !alive);
    const silent = unreachable.filter(({ nodeId }) => !down.some((member) => member.nodeId === nodeId));
    return [
      ...down.map(({ nodeId, name }) => {
        const since = this.#alive.get(nodeId) ?? this.#sinceOf(`down ${nodeId}`, now);
        return critical('member-down', name, 'does not answer the other members: its groups are not served', since);
      }),
      ...silent.map(({ nodeId, name, address, problem }) => {
        const since = this.#sinceOf(`unreachable ${nodeId}`, now);
        return critical('member-unreachable', name || address, `did not answer: ${problem}`, since);
      }),
    ];
  }

  #ofPartitions(partitions: readonly Partition[], members: readonly Member[], now: number): Attention[] {
    const unserved = partitions.filter((partition) => !isServed(partition));
    if (unserved.length === 0) return [];
    const holders = new Set(unserved.map(({ holderNodeId }) => holderNodeId));
    // They are unserved since their holders are down, if that is the reason.
    const down = members.filter(({ nodeId, alive }) => !alive && holders.has(nodeId));
    const begun = down.flatMap(({ nodeId }) => this.#alive.get(nodeId) ?? []).sort((a, b) => a.at - b.at)[0];
    const since = begun ?? this.#sinceOf('unserved', now);
    const names = [...new Set(unserved.map(({ holder }) => holder || 'none'))].join(', ');
    const message = `${unserved.length} of ${partitions.length} are not served; their holders: ${names}`;
    const { member: _none, ...attention } = critical('partition-unserved', 'partitions', message, since);
    return [attention];
  }

  #ofClocks(now: number): Attention[] {
    return this.#deps
      .clocks()
      .filter(({ aheadMs }) => Math.abs(aheadMs) > CLOCK_MS)
      .map(({ nodeId, member, aheadMs }) => {
        const seconds = Math.round(Math.abs(aheadMs) / 1000);
        const message = `its system clock is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of this program`;
        const since = this.#sinceOf(`clock ${nodeId}`, now);
        return { ...critical('clock', member, message, since), severity: 'warning' as const };
      });
  }

  /** Found while somebody asked, so it may have begun before. */
  #sinceOf(what: string, now: number): Beginning {
    const known = this.#found.get(what) ?? { at: now, isExact: false };
    this.#found.set(what, known);
    return known;
  }

  #forget(attention: readonly Attention[], unreachable: readonly UnreachableNode[]): void {
    const isThere = (kind: string): boolean => attention.some((one) => one.kind === kind);
    for (const what of this.#found.keys()) {
      if (what === 'unserved' && isThere('partition-unserved')) continue;
      if (what.startsWith('clock ') && isThere('clock')) continue;
      if (what.startsWith('down ') && isThere('member-down')) continue;
      if (unreachable.some(({ nodeId }) => what === `unreachable ${nodeId}`)) continue;
      this.#found.delete(what);
    }
  }

  #memberOf(member: Member, nodes: readonly NodeOverview[]): object {
    const { nodeId, name, rpcAddress, httpAddress, alive, suspect, version } = member;
    const known = this.#alive.get(nodeId);
    const told = nodes.find((node) => node.nodeId === nodeId);
    const clock = this.#deps.clocks().find((one) => one.nodeId === nodeId);
    return {
      id: nodeId,
      name,
      role: member.role === MemberRole.MEMBER_ROLE_PROXY ? 'proxy' : 'node',
      address: rpcAddress,
      http: httpAddress,
      // A proxy holds nothing, so it never joins.
      state: member.role === MemberRole.MEMBER_ROLE_PROXY ? 'connected' : (states[member.state] ?? 'joining'),
      alive,
      suspect,
      since: known?.at ?? null,
      sinceIsExact: known?.isExact ?? false,
      version,
      partitions: member.partitionsHeld,
      partitionsWanted: member.partitionsWanted,
      clockDifferenceMs: clock === undefined ? null : Math.round(clock.aheadMs),
      ...(told !== undefined && { health: told.health }),
      ...(told?.diskFreeBytes !== undefined && {
        disk: { freeBytes: told.diskFreeBytes, fullBelowBytes: told.diskFullBelowBytes ?? 0 },
      }),
    };
  }

  #unreachableOf({ nodeId, name, address, problem }: UnreachableNode, now: number): object {
    const known = this.#alive.get(nodeId);
    const { at, isExact } = known?.alive === false ? known : this.#sinceOf(`unreachable ${nodeId}`, now);
    return { id: nodeId, name, address, reason: problem, since: at, sinceIsExact: isExact };
  }
}

const PARAMETERS: ReadonlySet<string> = new Set(['after', 'changes']);
const JOINING = MemberState.MEMBER_STATE_JOINING;

const states: Readonly<Record<number, string>> = {
  [MemberState.MEMBER_STATE_JOINING]: 'joining',
  [MemberState.MEMBER_STATE_ACTIVE]: 'active',
  [MemberState.MEMBER_STATE_LEAVING]: 'leaving',
};

const isPresent = ({ state }: Member): boolean => state !== MemberState.MEMBER_STATE_LEFT;

function callerWith(access: CallerAccess): UnaryCaller {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  return {
    address: 'http',
    access,
    get gone() {
      return signal.aborted;
    },
    signal,
    routed: false,
    forwarded: false,
    deadline: Date.now() + PATIENCE_MS,
  };
}

function mayManage(access: CallerAccess): boolean {
  try {
    access.requireCluster('manage-cluster');
    return true;
  } catch (thrown) {
    if (thrown instanceof Refusal) return false;
    throw thrown;
  }
}

/** No sample is behind the last instant of a number. */
const NO_SAMPLES = { afterUnixMs: Number.MAX_SAFE_INTEGER, includeChanges: false };

const nothing = (): ReplyOf<'getOverview'> => ({ nodes: [], unreachable: [] });

const keyOf = ({ nodeId, name }: NodeOverview): string => nodeId || name;

const unreachableOf = (members: readonly Member[]): UnreachableNode[] =>
  members
    .filter(({ role }) => role === MemberRole.MEMBER_ROLE_NODE)
    .map(({ nodeId, name, rpcAddress }) => ({ nodeId, name, address: rpcAddress, problem: 'no node answers' }));

/** While it moves, calls to it wait for a moment. */
const isServed = ({ state }: Partition): boolean => state !== PartitionState.PARTITION_STATE_UNREACHABLE;

function partitionsOf(partitions: readonly Partition[] | undefined): object {
  if (partitions === undefined) return { total: null, served: null, unserved: null, moving: [] };
  const served = partitions.filter(isServed).length;
  const moving = partitions
    .filter(({ movingTo }) => movingTo !== '')
    .map(({ id, holder, movingTo, movedRows, movedBytes }) => {
      return { id, from: holder, to: movingTo, rows: movedRows, bytes: movedBytes };
    });
  return { total: partitions.length, served, unserved: partitions.length - served, moving };
}

function totalsOf(nodes: readonly NodeOverview[]): object {
  const sum = (of: (node: NodeOverview) => number | undefined): number =>
    Math.round(nodes.reduce((total, node) => total + (of(node) ?? 0), 0) * 1000) / 1000;
  return {
    queues: sum(({ totals }) => totals?.queues),
    available: sum(({ totals }) => totals?.available),
    leased: sum(({ totals }) => totals?.leased),
    delayed: sum(({ totals }) => totals?.delayed),
    waiting: sum(({ totals }) => totals?.waiting),
    completed: sum(({ totals }) => totals?.completed),
    deadLettered: sum(({ deadLettered }) => deadLettered),
    troubledQueues: sum(({ troubledQueues }) => troubledQueues),
    waitingLeases: sum(({ waitingLeases }) => waitingLeases),
    enqueueRate: sum(({ rates }) => rates?.enqueued),
    leaseRate: sum(({ rates }) => rates?.leased),
    completeRate: sum(({ rates }) => rates?.completed),
    failRate: sum(({ rates }) => rates?.failed),
    deadLetterRate: sum(({ rates }) => rates?.deadLettered),
  };
}

const critical = (kind: string, member: string, message: string, { at, isExact }: Beginning): Attention => ({
  severity: 'critical',
  kind,
  subject: member,
  message,
  since: at,
  sinceIsExact: isExact,
  member,
});

const attentionOf = ({ name, troubles }: NodeOverview): Attention[] =>
  troubles.map(({ kind, severity, message, sinceUnixMs, sinceIsExact, queue }) => ({
    severity: severity === TroubleSeverity.TROUBLE_SEVERITY_CRITICAL ? 'critical' : 'warning',
    kind,
    subject: queue || name,
    message,
    since: sinceUnixMs,
    sinceIsExact,
    ...(queue === '' ? { member: name } : { queue }),
  }));

const isCut = ({ troubles, troubledQueues }: NodeOverview): boolean =>
  troubledQueues > new Set(troubles.flatMap(({ queue }) => queue || [])).size;

/** First what is critical, of that what is about members, and of that what began first. */
const bySeverity = (a: Attention, b: Attention): number =>
  Number(b.severity === 'critical') - Number(a.severity === 'critical') ||
  Number(a.queue !== undefined) - Number(b.queue !== undefined) ||
  a.since - b.since;
