import { type Instant, Refusal } from '@taskmaster/engine/domain';
import type { CancelTimer, Clock, Log, Random } from '@taskmaster/engine/ports';
import type { ClusterKnowledge, ExchangeResponse, MemberRelease } from '@taskmaster/proto';
import type { Membership, Peer } from '../ports/membership.ts';
import type { CallPeer } from '../ports/peer-network.ts';
import { type ClockDifference, ClockWatch } from './clock-watch.ts';
import { fromWireRecord } from './knowledge-codec.ts';
import type { MemberState, Members } from './members.ts';
import { assertCompatible, releaseOf } from './releases.ts';

export interface ExchangerDeps {
  readonly membership: Membership;
  readonly call: CallPeer<'exchange'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly clusterId: string;
  /** Id of this node; empty for a proxy. */
  readonly from: string;
  readonly members: () => Members;
  /** The knowledge of this node. */
  readonly knowledge: () => ClusterKnowledge;
  /** Takes over the knowledge of another node. `from`: its id. */
  readonly learn: (knowledge: ClusterKnowledge | undefined, from: string) => Promise<void>;
  /** `host:port` of nodes to ask while no node is known to be alive. */
  readonly contacts: readonly string[];
  /** Called every few seconds, and when a member dies or returns. */
  readonly onBeat: () => void;
}

/** The answer of a node. */
export interface Heard {
  /** True if the node may commit: it does not wait for a confirmation of its own membership. */
  readonly mayCommit: boolean;
  /** The state that the node has by its own account. Undefined if it is no member. */
  readonly state: MemberState | undefined;
}

/** How often a node is asked if gossip announces no changes, in ms. */
const EXCHANGE_MS = 5_000;
export const EXCHANGE_TIMEOUT_MS = 2_000;

/** Exchanges knowledge of members and holders with other nodes: when gossip announces a change, and at intervals. */
export class Exchanger {
  readonly #deps: ExchangerDeps;
  readonly #clocks: ClockWatch;
  /** By node id: the incarnation and state version at its last answer. */
  readonly #seen = new Map<string, string>();
  readonly #pulling = new Set<string>();
  /** Ids of nodes at whose address another process answered. */
  readonly #reported = new Set<string>();
  /** By node: why its release does not work together with this one. */
  readonly #incompatible = new Map<string, string>();
  #endListening = (): void => {};
  #cancelTimer: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: ExchangerDeps) {
    this.#deps = deps;
    this.#clocks = new ClockWatch(deps);
  }

  /** Why this node cannot exchange knowledge with a member of another release; undefined if it can. */
  get incompatibility(): string | undefined {
    const [first] = this.#incompatible.values();
    return first;
  }

  /** How far the system clocks of other members are ahead of this one. */
  get clockDifferences(): readonly ClockDifference[] {
    return this.#clocks.differences;
  }

  /** Why most other members refuse forwarded calls of this process if callers are identified; undefined if they do not. */
  get forwardingProblem(): string | undefined {
    return this.#clocks.refusal;
  }

  start(): void {
    this.#endListening = this.#deps.membership.on('change', () => {
      this.#pullNews();
      this.#deps.onBeat();
    });
    this.#pullNews();
    this.#askContacts();
    this.#pullSoon();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
    this.#endListening();
  }

  /**
   * Exchanges knowledge with one node. Its answer is newer than this call. Resolves when the answer is taken over: true if that
   * node answered.
   */
  async with(nodeId: string, knowledge = this.#deps.knowledge()): Promise<boolean> {
    return (await this.hear(nodeId, knowledge)) !== undefined;
  }

  /** Like `with`. Resolves with the answer, or undefined if that node did not answer. */
  async hear(nodeId: string, knowledge = this.#deps.knowledge()): Promise<Heard | undefined> {
    const { membership, members } = this.#deps;
    const address = addressOf(nodeId, membership, members());
    if (address === undefined || this.#stopped) return undefined;
    try {
      const answer = await this.#ask(address, nodeId, knowledge);
      this.#reported.delete(nodeId);
      this.#incompatible.delete(nodeId);
      return answer;
    } catch (error) {
      // The next announcement of gossip leads to another attempt.
      this.#seen.delete(nodeId);
      this.#report(nodeId, address, error);
      return undefined;
    }
  }

  /**
   * Asks at an address. `nodeId`: the expected node; undefined: any node. Resolves with the answer, or undefined if another node
   * answered or this has been stopped.
   */
  async #ask(
    address: string,
    nodeId: string | undefined,
    knowledge = this.#deps.knowledge(),
  ): Promise<Heard | undefined> {
    const { call, clock, clusterId, from, learn, membership } = this.#deps;
    const release = releaseOf(membership.self.version);
    const request = { clusterId, from, knowledge, release };
    const anyNode = nodeId === undefined;
    const askedAt = clock.wall();
    const answer = await call(address, 'exchange', request, { timeoutMs: EXCHANGE_TIMEOUT_MS, anyNode });
    if (this.#stopped) return undefined;
    // This check comes before the knowledge is taken over: another process may have the address now.
    if (answer.clusterId !== clusterId) {
      throw new Refusal('WRONG_CLUSTER', `this is cluster ${clusterId}, and ${address} answers for another`);
    }
    if (nodeId !== undefined && answer.nodeId !== nodeId) return undefined;
    assertCompatible(release, answer.release);
    this.#clocks.heard(answer.nodeId, answer, askedAt);
    await learn(answer.knowledge, answer.nodeId);
    const own = answer.knowledge?.members.find((record) => record.nodeId === answer.nodeId);
    return { mayCommit: answer.mayCommit, state: own && fromWireRecord(own)?.state };
  }

  /** Asks the contacts. All members may have restarted at new addresses, and a node at a contact address knows them. */
  #askContacts(): void {
    const { contacts, membership, log } = this.#deps;
    if (aliveNodes(membership).length > 0) return;
    for (const address of contacts) {
      this.#ask(address, undefined).catch((error: unknown) =>
        log.debug({ err: error, address }, 'a contact address does not answer'),
      );
    }
  }

  /** Logs a failed exchange. A missing answer is normal. An answer of another process needs an operator, and is logged once. */
  #report(nodeId: string, address: string, error: unknown): void {
    const { log, members } = this.#deps;
    if (isIncompatible(error)) {
      this.#reportIncompatible(nodeId, address, (error as Refusal).message);
      return;
    }
    const isStranger = error instanceof Refusal && (error.reason === 'WRONG_CLUSTER' || error.reason === 'WRONG_KEY');
    if (!isStranger || this.#reported.has(nodeId)) {
      log.debug({ err: error, peer: nodeId }, 'a member did not answer an exchange');
      return;
    }
    this.#reported.add(nodeId);
    const { reason, message } = error;
    const member = members().get(nodeId)?.name ?? nodeId;
    log.error(
      { member, address, reason },
      `the process at the address of member ${member} is not of this cluster: ${message}`,
    );
  }

  /** Logged once for each time that the member becomes incompatible. */
  #reportIncompatible(nodeId: string, address: string, problem: string): void {
    const member = this.#deps.members().get(nodeId)?.name ?? nodeId;
    if (!this.#incompatible.has(nodeId)) this.#deps.log.error({ member, address }, `member ${member}: ${problem}`);
    this.#incompatible.set(nodeId, `member ${member}: ${problem}`);
  }

  #pullNews(): void {
    for (const { nodeId, incarnation, stateVersion } of aliveNodes(this.#deps.membership)) {
      const state = `${incarnation}/${stateVersion}`;
      if (this.#seen.get(nodeId) === state || this.#pulling.has(nodeId)) continue;
      this.#seen.set(nodeId, state);
      void this.#pull(nodeId);
    }
  }

  /** Asks one node, one call at a time. Changes meanwhile come with the next call. */
  async #pull(nodeId: string): Promise<void> {
    this.#pulling.add(nodeId);
    const answered = await this.with(nodeId);
    this.#pulling.delete(nodeId);
    if (answered && !this.#stopped) this.#pullNews();
  }

  #pullSoon(): void {
    const { clock, random, membership, onBeat } = this.#deps;
    const delayMs = EXCHANGE_MS * (0.5 + random.next());
    this.#cancelTimer = clock.at((clock.now() + Math.ceil(delayMs)) as Instant, () => {
      const alive = aliveNodes(membership);
      const peer = alive[Math.floor(random.next() * alive.length)];
      if (peer) void this.with(peer.nodeId);
      this.#askContacts();
      onBeat();
      this.#pullSoon();
    });
  }
}

const aliveNodes = (membership: Membership): Peer[] =>
  membership.peers().filter(({ alive, role }) => alive && role === 'node');

/** The address of a node: the gossiped one while it is alive, otherwise the one in its record, where it most likely returns. */
export function addressOf(nodeId: string, membership: Membership, members: Members): string | undefined {
  const peer = membership.peers().find((one) => one.nodeId === nodeId);
  if (peer?.alive) return peer.rpcAddress;
  return members.get(nodeId)?.rpcAddress || peer?.rpcAddress;
}

/** No address at which the cluster was searched has answered. */
export class NoNodeAnswersError extends Error {
  override readonly name = 'NoNodeAnswersError';
  /** The first address that refused the key of the caller, or its lack of a key. Undefined: none did. */
  readonly wrongKeyAt: string | undefined;
  /** The problem of the first address with an incompatible release. Undefined: there was none. */
  readonly incompatible: string | undefined;

  constructor(message: string, { wrongKeyAt, incompatible }: { wrongKeyAt?: string; incompatible?: string }) {
    super(message);
    this.wrongKeyAt = wrongKeyAt;
    this.incompatible = incompatible;
  }
}

/**
 * Asks for the facts about a cluster, at the first of these addresses that answers. Rejects with `NoNodeAnswersError`, which
 * names the problem of each address, or with the reason of `signal`.
 */
export async function askCluster(
  call: CallPeer<'exchange'>,
  addresses: readonly string[],
  release: MemberRelease,
  signal?: AbortSignal,
): Promise<ExchangeResponse> {
  const problems: string[] = [];
  const refused: { wrongKeyAt?: string; incompatible?: string } = {};
  for (const address of addresses) {
    try {
      const request = { clusterId: '', from: '', knowledge: undefined, release };
      const answer = await call(address, 'exchange', request, {
        timeoutMs: EXCHANGE_TIMEOUT_MS,
        anyNode: true,
        signal,
      });
      assertCompatible(release, answer.release);
      return answer;
    } catch (error) {
      signal?.throwIfAborted();
      const problem = problemAt(address, error instanceof Error ? error.message : String(error));
      if (error instanceof Refusal && error.reason === 'WRONG_KEY') refused.wrongKeyAt ??= address;
      if (isIncompatible(error)) refused.incompatible ??= problem;
      problems.push(problem);
    }
  }
  throw new NoNodeAnswersError(problems.join('; '), refused);
}

const isIncompatible = (error: unknown): boolean => error instanceof Refusal && error.reason === 'INCOMPATIBLE_RELEASE';

/** The text for a problem at one of several addresses. The problem of an unreachable address names the address already. */
export const problemAt = (address: string, problem: string): string =>
  problem.startsWith(address) ? problem : `${address}: ${problem}`;
