import { randomBytes } from 'node:crypto';
import type { ExchangeResponse, JoinResponse } from '@taskmaster/proto';
import {
  fromWireRecord,
  type MemberRecord,
  type Members,
  mergeMembers,
  problemAt,
  toWireRecord,
} from '@taskmaster/server/cluster-view';
import { Refusal } from '@taskmaster/server/domain';
import { type CallPeer, type Clock, type Log, sleep } from '@taskmaster/server/ports';
import type { Identity, MemberStore } from './member-store.ts';

/** The role of a node when it starts: without a cluster, or a member of one. */
export type StartingRole =
  /** The node belongs to no cluster and was not told to join one. */
  | { readonly kind: 'alone' }
  | {
      readonly kind: 'member';
      /** Its `boots` includes this start. */
      readonly identity: Identity;
      /** With a record of its own. */
      readonly members: Members;
      /** How many partitions the cluster has; undefined: as many as the data directory was made with. */
      readonly partitions: number | undefined;
      /** True if this node starts the cluster; it then holds all partitions. */
      readonly begins: boolean;
    };

export interface StartingRoleDeps {
  readonly memberStore: MemberStore;
  readonly inspect: () => Promise<StoreContents>;
  /**
   * Called before the node asks to join: takes the ports that a member needs. Otherwise a node could be admitted and then
   * fail to start.
   */
  readonly prepare: () => Promise<void>;
  readonly call: CallPeer;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the asking. */
  readonly signal: AbortSignal;
  /** Told what is wrong with everybody it asks in vain. */
  readonly onAsking: (problem: string) => void;
}

/** What a data directory has. */
export interface StoreContents {
  readonly hasQueues: boolean;
  /** Undefined: it was never used. */
  readonly partitions: number | undefined;
}

export interface StartingRoleSettings {
  /** Empty: `defaultName`, or the name it had. */
  readonly name: string;
  readonly defaultName: string;
  readonly bootstrap: boolean;
  readonly join: readonly string[];
  /** Whether the first of `join` is this node. Where all nodes are started alike, it is the one that begins. */
  readonly isFirst: boolean;
}

/** The node cannot take the role that its settings ask for. */
export class ClusterStartError extends Error {
  override readonly name = 'ClusterStartError';
}

const JOIN_TIMEOUT_MS = 5_000;
/** Of a member that starts again, and is held up by it where an address is silent. */
const LOOK_TIMEOUT_MS = 2_000;
const RETRY_MS = 500;
const SAY_EVERY_MS = 30_000;
/** How long a node that may begin a cluster looks for one first. */
const LOOK_FIRST_MS = 5_000;
/** Answers that are not those of one member, but of the cluster. */
const FINAL = new Set(['WRONG_CLUSTER', 'NAME_IN_USE', 'MEMBER_LEFT', 'WRONG_KEY']);

const newId = (): string => randomBytes(8).toString('hex');

/** Decides the role of this node: it restarts as a member, starts a cluster, joins one, or runs without a cluster. */
export async function takeStartingRole(settings: StartingRoleSettings, deps: StartingRoleDeps): Promise<StartingRole> {
  const known = await deps.memberStore.readIdentity();
  if (known && known.clusterId !== '') {
    const members = await deps.memberStore.readMembers();
    const own = members.get(known.nodeId);
    if (own && own.state !== 'left') return restart(known, members, settings, deps);
    if (own?.removedBy) throw givenUp(own, members);
    if (settings.join.length === 0) {
      throw new ClusterStartError(`member ${known.name} has left the cluster: --join brings it back as a new member`);
    }
    // It has handed everything over: it comes back as somebody else, or goes on with that.
    return begin(own ? { ...known, nodeId: newId() } : known, settings, deps);
  }
  if (!settings.bootstrap && settings.join.length === 0) return { kind: 'alone' };
  return begin(known, settings, deps);
}

async function restart(
  known: Identity,
  members: Members,
  settings: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<StartingRole> {
  const { memberStore, log } = deps;
  const { name, bootstrap, join } = settings;
  if (name !== '' && name !== known.name) {
    throw new ClusterStartError(
      `the data directory is that of member ${known.name}, not of ${name}: start it as ${known.name}, or give ${name} a directory of its own`,
    );
  }
  await assertSameCluster(known, settings, deps);
  if (bootstrap || join.length > 0) {
    const { clusterId, nodeId } = known;
    log.info({ clusterId, nodeId, name: known.name }, 'its directory is that of a member: it neither begins nor joins');
  }
  const identity = { ...known, boots: known.boots + 1 };
  await memberStore.writeIdentity(identity);
  // A start that ended while the cluster was begun; whoever joins one knows somebody else.
  const begins = members.size === 1 && members.get(known.nodeId)?.state === 'joining';
  return { kind: 'member', identity, members, partitions: undefined, begins };
}

/** Whether those it is told to join are of the cluster that it is a member of. Nobody needs to answer. */
async function assertSameCluster(
  { name, clusterId }: Identity,
  { join, bootstrap }: StartingRoleSettings,
  { call, log, signal }: StartingRoleDeps,
): Promise<void> {
  const hello = { clusterId: '', from: '', knowledge: undefined };
  const asked = join.map(async (address) => {
    const answer = await call(address, 'exchange', hello, { timeoutMs: LOOK_TIMEOUT_MS, signal });
    return { address, clusterId: answer.clusterId };
  });
  const same = asked.map(async (answer) => ((await answer).clusterId === clusterId ? true : Promise.reject(answer)));
  if (join.length === 0 || (await Promise.any(same).catch(() => false))) return;
  const answers = await Promise.allSettled(asked);
  signal.throwIfAborted();
  const [other] = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
  if (!other) return;
  const problem = `the data directory is that of member ${name} of cluster ${clusterId}, but ${other.address} is of cluster ${other.clusterId}`;
  // Where all are started alike, the one that lost its disk may have begun another: the others are needed all the more.
  if (!bootstrap) throw new ClusterStartError(`${problem}: start it without --join, or join with an empty directory`);
  log.error(other, `${problem}: it starts as the member that it was`);
}

/** `earlier`: who the node was when it asked in vain, since others may know it by that id; or is after it left. */
async function begin(
  earlier: Identity | undefined,
  settings: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<StartingRole> {
  const { memberStore, log } = deps;
  const name = settings.name || earlier?.name || settings.defaultName;
  const clusterless = { nodeId: earlier?.nodeId ?? newId(), name, boots: (earlier?.boots ?? 0) + 1 };
  const { nodeId } = clusterless;
  const own: MemberRecord = {
    ...{ nodeId, name, state: 'joining', version: 1 },
    ...{ rpcAddress: '', gossipAddress: '', removedBy: '' },
  };
  const contents = await deps.inspect();
  assertMayBegin(earlier, settings, contents);
  await deps.prepare();
  // Before anybody is asked: of whom is taken in and forgets it, only the name would be left, for ever. The id of a
  // cluster without a record of this node in it says that another one of this directory has left there.
  await memberStore.writeIdentity({ ...clusterless, clusterId: earlier?.clusterId ?? '' });
  const answer = settings.join.length > 0 ? await ask(own, earlier, contents, settings, deps) : undefined;
  const clusterId = answer?.clusterId ?? newId();
  const told = (answer?.knowledge?.members ?? []).map(fromWireRecord).filter((one) => one !== undefined);
  const members = mergeMembers(new Map([[nodeId, own]]), told);
  await memberStore.writeMembers(members.values());
  const identity = { ...clusterless, clusterId };
  await memberStore.writeIdentity(identity);
  log.info({ clusterId, nodeId, name }, answer ? 'joined a cluster' : 'began a cluster');
  return { kind: 'member', identity, members, partitions: answer?.partitions, begins: !answer };
}

/** Whether what the data directory has can become that of a member of the cluster that it is told to begin or join. */
function assertMayBegin(
  earlier: Identity | undefined,
  { bootstrap, join }: StartingRoleSettings,
  { hasQueues }: StoreContents,
): void {
  if (join.length === 0 || wasMember(earlier) || !hasQueues) return;
  // Two clusters would be begun where a directory that has something is one of those that are started alike.
  throw new ClusterStartError(
    bootstrap
      ? 'the data directory has queues of a node that stood alone: begin a cluster with it by --bootstrap without --join, or give the new member an empty one'
      : 'the data directory has queues of a node that stood alone, which the cluster would not serve: give the new member an empty one, or begin a cluster with this one (--bootstrap)',
  );
}

const wasMember = (earlier: Identity | undefined): earlier is Identity =>
  earlier !== undefined && earlier.clusterId !== '';

/** Asked of the cluster before it takes the node in: it would wait for one that may not start. */
function assertFits(
  cluster: Pick<ExchangeResponse, 'clusterId' | 'partitions'>,
  earlier: Identity | undefined,
  { partitions }: StoreContents,
): void {
  if (wasMember(earlier) && earlier.clusterId !== cluster.clusterId) {
    throw new ClusterStartError(
      `the data directory was that of a member of cluster ${earlier.clusterId}, not ${cluster.clusterId}: start with an empty one`,
    );
  }
  if (partitions !== undefined && partitions !== cluster.partitions) {
    throw new ClusterStartError(
      `the data directory was made with ${partitions} partitions, the cluster has ${cluster.partitions}: start with an empty one`,
    );
  }
}

/** Asks one address after the other, again and again, until one answers; undefined if the node may begin a cluster. */
async function ask(
  record: MemberRecord,
  earlier: Identity | undefined,
  contents: StoreContents,
  { join, bootstrap, isFirst }: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<JoinResponse | undefined> {
  const { clock, log, signal, onAsking } = deps;
  const began = clock.now();
  const mayBegin = bootstrap && isFirst && !wasMember(earlier);
  const hint = bootstrap && !mayBegin ? `; only ${join[0]} begins a cluster` : '';
  let said = Number.NEGATIVE_INFINITY;
  for (;;) {
    const asked = await askEach(record, (answer) => assertFits(answer, earlier, contents), join, deps);
    if (asked.answer) return asked.answer;
    if (mayBegin && clock.now() - began >= LOOK_FIRST_MS) return undefined;
    const problem = asked.problem + hint;
    onAsking(problem);
    if (clock.now() - said >= SAY_EVERY_MS) {
      said = clock.now();
      log.warn({ join, problem }, 'no member of the cluster answers; the node goes on asking');
    }
    await sleep(clock, RETRY_MS, signal);
  }
}

type Asked =
  | { readonly answer: JoinResponse }
  /** What was wrong with each. */
  | { readonly answer: undefined; readonly problem: string };

async function askEach(
  record: MemberRecord,
  assertFits: (cluster: ExchangeResponse) => void,
  join: readonly string[],
  { call, signal }: StartingRoleDeps,
): Promise<Asked> {
  const problems: string[] = [];
  let stranger: ClusterStartError | undefined;
  for (const address of join) {
    try {
      const hello = { clusterId: '', from: '', knowledge: undefined };
      assertFits(await call(address, 'exchange', hello, { timeoutMs: JOIN_TIMEOUT_MS, signal }));
      const request = { clusterId: '', member: toWireRecord(record) };
      return { answer: await call(address, 'join', request, { timeoutMs: JOIN_TIMEOUT_MS, signal }) };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ClusterStartError) throw error;
      const problem = error instanceof Error ? error.message : String(error);
      problems.push(problemAt(address, problem));
      if (!(error instanceof Refusal) || !FINAL.has(error.reason)) continue;
      const hint = error.reason === 'NAME_IN_USE' ? ' (NAME_IN_USE): choose another with --name' : '';
      const refused = new ClusterStartError(`${address} refuses: ${problem}${hint}`, { cause: error });
      // Whoever that is, the others may be members.
      if (error.reason === 'WRONG_KEY') stranger = refused;
      else throw refused;
    }
  }
  if (stranger) throw stranger;
  return { answer: undefined, problem: problems.join('; ') };
}

function givenUp({ name, removedBy }: MemberRecord, members: Members): ClusterStartError {
  const by = members.get(removedBy)?.name ?? removedBy;
  return new ClusterStartError(
    `member ${name} was given up through ${by}: nothing in this data directory is served any more; start with an empty one`,
  );
}
