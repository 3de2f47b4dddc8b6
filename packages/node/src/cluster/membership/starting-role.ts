import { randomBytes } from 'node:crypto';
import { Refusal } from '@taskmaster/engine/domain';
import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import type { ClusterKnowledge, ExchangeResponse, JoinResponse, MemberRelease } from '@taskmaster/proto';
import {
  assertCompatible,
  fromWireRecord,
  type MemberRecord,
  type Members,
  mergeMembers,
  problemAt,
  toWireRecord,
} from '@taskmaster/server/cluster-view';
import type { CallPeer } from '@taskmaster/server/ports';
import type { ClusterRecord } from './cluster-record.ts';
import { type Identity, type MemberStore, nextStartNumber } from './member-store.ts';

/** The role of a node when it starts: without a cluster, or a member of one. */
export type StartingRole =
  /** The node belongs to no cluster and was not told to join one. */
  | { readonly kind: 'alone' }
  | {
      readonly kind: 'member';
      /** Has the number of this start. */
      readonly identity: Identity;
      /** Includes the node's own record. */
      readonly members: Members;
      /** Number of partitions of the cluster; undefined: the number that the data directory was created with. */
      readonly partitions: number | undefined;
      /** True if this node starts the cluster; it then holds all partitions. */
      readonly begins: boolean;
    };

export interface StartingRoleDeps {
  readonly memberStore: MemberStore;
  /** Undefined if only the data directories know the cluster. */
  readonly record?: ClusterRecord | undefined;
  readonly inspect: () => Promise<StoreContents>;
  /**
   * Called before the node asks to join: takes the ports that a member needs. Otherwise a node could be admitted and then
   * fail to start.
   */
  readonly prepare: () => Promise<void>;
  readonly call: CallPeer;
  /** The release of this node. */
  readonly release: MemberRelease;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the search for the cluster. */
  readonly signal: AbortSignal;
  /** Called with the problem of each address when none of them has answered. */
  readonly onAsking: (problem: string) => void;
}

/** The contents of a data directory. */
export interface StoreContents {
  readonly hasQueues: boolean;
  /** Undefined for a directory that was never used. */
  readonly partitions: number | undefined;
}

export interface StartingRoleSettings {
  /** Empty: the name that the node had before, or `defaultName`. */
  readonly name: string;
  readonly defaultName: string;
  readonly bootstrap: boolean;
  readonly join: readonly string[];
  /** True if the first address in `join` is this node: it begins the cluster if all nodes are started with the same settings. */
  readonly isFirst: boolean;
  /** The settings that only a member of a cluster has. */
  readonly marks: readonly string[];
}

/** The node cannot take the role that its settings ask for. */
export class ClusterStartError extends Error {
  override readonly name = 'ClusterStartError';
}

const JOIN_TIMEOUT_MS = 5_000;
/** Timeout for each address when a member restarts: a silent address delays the restart by this time. */
const LOOK_TIMEOUT_MS = 2_000;
const RETRY_MS = 500;
const SAY_EVERY_MS = 30_000;
/** A node that may begin a cluster looks for an existing one for this time. */
const LOOK_FIRST_MS = 5_000;
/** Refusals by which one member answers for the whole cluster. */
const FINAL = new Set(['WRONG_CLUSTER', 'NAME_IN_USE', 'MEMBER_LEFT', 'WRONG_KEY', 'INCOMPATIBLE_RELEASE']);

const newId = (): string => randomBytes(8).toString('hex');

/** Decides the role of this node: it restarts as a member, starts a cluster, joins one, or runs without a cluster. */
export async function takeStartingRole(settings: StartingRoleSettings, deps: StartingRoleDeps): Promise<StartingRole> {
  const known = await deps.memberStore.readIdentity();
  if (known && known.clusterId !== '') {
    const members = await deps.memberStore.readMembers();
    const own = members.get(known.nodeId);
    if (own && own.state !== 'left') return restart(known, members, settings, deps);
    if (own?.removedBy) throw removedError(own, members);
    if (settings.join.length === 0) {
      throw new ClusterStartError(`member ${known.name} has left the cluster: --join brings it back as a new member`);
    }
    // The node has left. It joins under a new id, or continues a join that was interrupted.
    return begin(own ? { ...known, nodeId: newId() } : known, settings, deps);
  }
  if (!settings.bootstrap && settings.join.length === 0) {
    assertMayBeAlone(settings, await deps.inspect());
    return { kind: 'alone' };
  }
  return begin(known, settings, deps);
}

/**
 * Throws if the node seems to be a member that has lost its directory. At the address of the member it would take tasks that the
 * cluster never sees. A stand-alone node that was used before goes on.
 */
function assertMayBeAlone({ marks }: StartingRoleSettings, { partitions }: StoreContents): void {
  if (marks.length === 0 || partitions !== undefined) return;
  throw new ClusterStartError(
    `the data directory is empty, and the node has settings of a member of a cluster (${marks.join(', ')}): name members with --join, begin a cluster with --bootstrap, or leave these settings out for a stand-alone node`,
  );
}

async function restart(
  known: Identity,
  members: Members,
  settings: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<StartingRole> {
  const { memberStore, clock, log } = deps;
  const { name, bootstrap, join } = settings;
  if (name !== '' && name !== known.name) {
    throw new ClusterStartError(
      `the data directory is that of member ${known.name}, not of ${name}: start it as ${known.name}, or give ${name} another directory`,
    );
  }
  await assertRecorded(known, deps);
  const heard = await askOwnCluster(known, settings, deps);
  if (bootstrap || join.length > 0) {
    const { clusterId, nodeId } = known;
    log.info(
      { clusterId, nodeId, name: known.name },
      'its directory is that of a member: it neither begins nor joins a cluster',
    );
  }
  const identity = { ...known, startNumber: nextStartNumber(known.startNumber, clock) };
  await memberStore.writeIdentity(identity);
  // An older copy of a directory may lack members, and a node that knows no other member would serve at once.
  const unknown = heard.filter(({ nodeId }) => !members.has(nodeId));
  await memberStore.writeMembers(unknown);
  // An earlier start ended while it began the cluster. A node that joined one would know another member.
  const begins = members.size === 1 && members.get(known.nodeId)?.state === 'joining';
  return { kind: 'member', identity, members: mergeMembers(members, unknown), partitions: undefined, begins };
}

/** Throws if the deployment has another cluster than the data directory. A record that cannot be read does not stop a member. */
async function assertRecorded({ name, nodeId, clusterId }: Identity, { record, log }: StartingRoleDeps): Promise<void> {
  try {
    const recorded = await record?.claim({ clusterId, firstNode: nodeId });
    if (recorded === undefined || recorded.clusterId === clusterId) return;
    throw new ClusterStartError(
      `the data directory is that of member ${name} of cluster ${clusterId}, but cluster ${recorded.clusterId} is recorded for these nodes: give the node the directory of a member of that cluster, or an empty one`,
    );
  } catch (err) {
    if (err instanceof ClusterStartError) throw err;
    log.warn(
      { err },
      'the record of the cluster cannot be read; the node starts as the member that its directory names',
    );
  }
}

/**
 * Asks the addresses to join. Resolves with the members that a member of this cluster knows; with none if no address answers.
 * Throws if the addresses belong to another cluster.
 */
async function askOwnCluster(
  { name, clusterId }: Identity,
  { join, bootstrap }: StartingRoleSettings,
  { call, release, log, signal }: StartingRoleDeps,
): Promise<readonly MemberRecord[]> {
  const hello = { clusterId: '', from: '', knowledge: undefined, release };
  const asked = join.map(async (address) => {
    const answer = await call(address, 'exchange', hello, { timeoutMs: LOOK_TIMEOUT_MS, anyNode: true, signal });
    assertCompatible(release, answer.release);
    return { address, clusterId: answer.clusterId, members: recordsIn(answer.knowledge) };
  });
  const same = asked.map(async (answer) => ((await answer).clusterId === clusterId ? answer : Promise.reject(answer)));
  if (join.length === 0) return [];
  const own = await Promise.any(same).catch(() => undefined);
  if (own) return own.members;
  const answers = await Promise.allSettled(asked);
  signal.throwIfAborted();
  const [other] = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
  if (!other) return [];
  const { address } = other;
  const problem = `the data directory is that of member ${name} of cluster ${clusterId}, but ${address} is of cluster ${other.clusterId}`;
  // If all nodes are started with the same settings, one that lost its disk may have begun a second cluster. The members of
  // the first one must start nevertheless.
  if (!bootstrap) throw new ClusterStartError(`${problem}: start it without --join, or join with an empty directory`);
  log.error({ address, clusterId: other.clusterId }, `${problem}: it starts as a member of its own cluster`);
  return [];
}

const recordsIn = (knowledge: ClusterKnowledge | undefined): MemberRecord[] =>
  (knowledge?.members ?? []).map(fromWireRecord).filter((record) => record !== undefined);

/**
 * Begins or joins a cluster. `earlier`: the identity of an earlier attempt, which the cluster may have admitted; or the new
 * identity after the node has left.
 */
async function begin(
  earlier: Identity | undefined,
  settings: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<StartingRole> {
  const { memberStore, clock, log } = deps;
  const name = settings.name || earlier?.name || settings.defaultName;
  const startNumber = nextStartNumber(earlier?.startNumber, clock);
  const clusterless = { nodeId: earlier?.nodeId ?? newId(), name, startNumber };
  const { nodeId } = clusterless;
  const own: MemberRecord = {
    nodeId,
    name,
    state: 'joining',
    version: 1,
    rpcAddress: '',
    gossipAddress: '',
    removedBy: '',
  };
  const contents = await deps.inspect();
  assertMayBegin(earlier, settings, contents);
  await deps.prepare();
  // Written before the node asks: if it was admitted and then forgot its id, its record would keep the name forever.
  // A directory with a cluster id but without a record of its own belonged to a member that has left the cluster.
  await memberStore.writeIdentity({ ...clusterless, clusterId: earlier?.clusterId ?? '' });
  const found = await findOrBegin(own, earlier, contents, settings, deps);
  const answer = found.kind === 'joined' ? found.answer : undefined;
  const { clusterId } = answer ?? found;
  const members = mergeMembers(new Map([[nodeId, own]]), recordsIn(answer?.knowledge));
  await memberStore.writeMembers(members.values());
  const identity = { ...clusterless, clusterId };
  await memberStore.writeIdentity(identity);
  log.info({ clusterId, nodeId, name }, answer ? 'joined a cluster' : 'began a cluster');
  return { kind: 'member', identity, members, partitions: answer?.partitions, begins: !answer };
}

/** Throws if the data directory cannot be used by a new member of the cluster. */
function assertMayBegin(
  earlier: Identity | undefined,
  { bootstrap, join }: StartingRoleSettings,
  { hasQueues }: StoreContents,
): void {
  if (join.length === 0 || wasMember(earlier) || !hasQueues) return;
  // If nodes are started with the same settings and one directory has queues, two clusters would begin.
  throw new ClusterStartError(
    bootstrap
      ? 'the data directory has queues of a stand-alone node: begin a cluster with it by --bootstrap without --join, or give the new member an empty directory'
      : 'the data directory has queues of a stand-alone node, which the cluster would not serve: give the new member an empty directory, or begin a cluster with this one (--bootstrap)',
  );
}

const wasMember = (earlier: Identity | undefined): earlier is Identity =>
  earlier !== undefined && earlier.clusterId !== '';

/** Throws if this data directory does not fit the cluster. Checked before the join: the cluster would wait for the member. */
function assertFits(
  cluster: Pick<ExchangeResponse, 'clusterId' | 'partitions'>,
  earlier: Identity | undefined,
  { partitions }: StoreContents,
): void {
  if (wasMember(earlier) && earlier.clusterId !== cluster.clusterId) {
    throw new ClusterStartError(
      `the data directory belonged to a member of cluster ${earlier.clusterId}, not ${cluster.clusterId}: start with an empty one`,
    );
  }
  if (partitions !== undefined && partitions !== cluster.partitions) {
    throw new ClusterStartError(
      `the data directory was created with ${partitions} partitions, the cluster has ${cluster.partitions}: start with an empty one`,
    );
  }
}

type Found =
  | { readonly kind: 'joined'; readonly answer: JoinResponse; readonly clusterId: string }
  /** No member has answered, and this node begins a cluster. */
  | { readonly kind: 'begins'; readonly clusterId: string };

/** Joins a cluster, or begins one if the settings and the record allow it. */
async function findOrBegin(
  own: MemberRecord,
  earlier: Identity | undefined,
  contents: StoreContents,
  settings: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<Found> {
  if (settings.join.length > 0) return ask(own, earlier, contents, settings, deps);
  const claimed = await claimNew(own, deps);
  if (typeof claimed === 'object') throw new ClusterStartError(claimed.problem);
  return { kind: 'begins', clusterId: claimed };
}

/** The id of the cluster that this node begins, or why it must not begin one. */
async function claimNew(
  { nodeId }: MemberRecord,
  { record }: StartingRoleDeps,
): Promise<string | { readonly problem: string }> {
  const wanted = { clusterId: newId(), firstNode: nodeId };
  if (record === undefined) return wanted.clusterId;
  try {
    const { clusterId, firstNode } = await record.claim(wanted);
    // An earlier start of this node may have ended after its claim.
    if (firstNode === nodeId) return clusterId;
    return {
      problem: `cluster ${clusterId} is recorded for these nodes, and this node has an empty data directory: it waits for a member of that cluster`,
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { problem: `no cluster begins, because it cannot be recorded: ${why}` };
  }
}

/** Asks the addresses in order, repeatedly, until one admits this node, or this node may begin a cluster. */
async function ask(
  record: MemberRecord,
  earlier: Identity | undefined,
  contents: StoreContents,
  { join, bootstrap, isFirst }: StartingRoleSettings,
  deps: StartingRoleDeps,
): Promise<Found> {
  const { clock, log, signal, onAsking } = deps;
  const began = clock.now();
  const mayBegin = bootstrap && isFirst && !wasMember(earlier);
  const hint = bootstrap && !mayBegin ? `; only ${join[0]} begins a cluster` : '';
  let said = Number.NEGATIVE_INFINITY;
  for (;;) {
    const asked = await askEach(record, (answer) => assertFits(answer, earlier, contents), join, deps);
    if (asked.answer) return { kind: 'joined', answer: asked.answer, clusterId: asked.answer.clusterId };
    let problem = asked.problem + hint;
    if (mayBegin && clock.now() - began >= LOOK_FIRST_MS) {
      const claimed = await claimNew(record, deps);
      if (typeof claimed === 'string') return { kind: 'begins', clusterId: claimed };
      problem += `; ${claimed.problem}`;
    }
    onAsking(problem);
    if (clock.now() - said >= SAY_EVERY_MS) {
      said = clock.now();
      log.warn({ join, problem }, 'no member of the cluster answers; this node asks again until one does');
    }
    await sleep(clock, RETRY_MS, signal);
  }
}

type Asked =
  | { readonly answer: JoinResponse }
  /** `problem`: what is wrong with each address. */
  | { readonly answer: undefined; readonly problem: string };

async function askEach(
  record: MemberRecord,
  assertFits: (cluster: ExchangeResponse) => void,
  join: readonly string[],
  { call, release, signal }: StartingRoleDeps,
): Promise<Asked> {
  const within = { timeoutMs: JOIN_TIMEOUT_MS, anyNode: true, signal };
  const problems: string[] = [];
  let stranger: ClusterStartError | undefined;
  for (const address of join) {
    try {
      const hello = { clusterId: '', from: '', knowledge: undefined, release };
      const found = await call(address, 'exchange', hello, within);
      assertCompatible(release, found.release);
      assertFits(found);
      const request = { clusterId: '', member: toWireRecord(record), release };
      return { answer: await call(address, 'join', request, within) };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ClusterStartError) throw error;
      const problem = error instanceof Error ? error.message : String(error);
      problems.push(problemAt(address, problem));
      if (!(error instanceof Refusal) || !FINAL.has(error.reason)) continue;
      const hint = error.reason === 'NAME_IN_USE' ? nameHint(record.name) : '';
      const refused = new ClusterStartError(`${address} refuses: ${problem}${hint}`, { cause: error });
      // This address may belong to a stranger while the others are members.
      if (error.reason === 'WRONG_KEY') stranger = refused;
      else throw refused;
    }
  }
  if (stranger) throw stranger;
  return { answer: undefined, problem: problems.join('; ') };
}

/** A lost disk is the usual cause: the old member is still listed, and waits for its data. */
const nameHint = (name: string): string =>
  ` (NAME_IN_USE): if this node has lost its disk, remove the old member first (taskmaster members remove ${name}), which gives up its tasks; otherwise choose another name with --name`;

function removedError({ name, removedBy }: MemberRecord, members: Members): ClusterStartError {
  const by = members.get(removedBy)?.name ?? removedBy;
  return new ClusterStartError(
    `member ${name} was removed through ${by}: this data directory is not served any more; start with an empty one`,
  );
}
