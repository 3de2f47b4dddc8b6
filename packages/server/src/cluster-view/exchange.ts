import type { ClusterKnowledge, ExchangeResponse } from '@taskmaster/proto';
import type { Instant } from '../domain/ids.ts';
import { Refusal } from '../domain/refusal.ts';
import type { CancelTimer, Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Membership, Peer } from '../ports/membership.ts';
import type { CallPeer } from '../ports/peer-network.ts';
import type { Random } from '../ports/random.ts';
import { ClockWatch } from './clock-watch.ts';
import type { Members } from './members.ts';

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
  /** What is told. */
  readonly knowledge: () => ClusterKnowledge;
  /** Takes over what the node of this id knows. */
  readonly learn: (knowledge: ClusterKnowledge | undefined, from: string) => Promise<void>;
  /** `host:port` of gRPC of nodes to ask while none is seen to be alive. */
  readonly contacts: readonly string[];
  /** Called every few seconds, and after each change of who is alive. */
  readonly onBeat: () => void;
}

/** How a node answered. */
export interface Heard {
  /** It may change what it holds: it does not wait to hear that it is still a member itself. */
  readonly mayCommit: boolean;
}

/** How often somebody is asked even where gossip tells of no news. */
const EXCHANGE_MS = 5_000;
export const EXCHANGE_TIMEOUT_MS = 2_000;

/** Keeps what is known of members and holders in step with the others: with whoever has news, and now and then anyway. */
export class Exchanger {
  readonly #deps: ExchangerDeps;
  readonly #clocks: ClockWatch;
  /** By node: the start and state of which it was asked last. */
  readonly #seen = new Map<string, string>();
  readonly #pulling = new Set<string>();
  /** Nodes at whose addresses strangers are. */
  readonly #reported = new Set<string>();
  #endListening = (): void => {};
  #cancelTimer: CancelTimer = () => {};
  #stopped = false;

  constructor(deps: ExchangerDeps) {
    this.#deps = deps;
    this.#clocks = new ClockWatch(deps);
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
   * Tells one node what is known and learns what it knows, from a moment after this call. Resolves with whether that node
   * answered, once what it said is taken over.
   */
  async with(nodeId: string, knowledge = this.#deps.knowledge()): Promise<boolean> {
    return (await this.hear(nodeId, knowledge)) !== undefined;
  }

  /** As `with`; resolves with how that node answered, undefined unless it did. */
  async hear(nodeId: string, knowledge = this.#deps.knowledge()): Promise<Heard | undefined> {
    const { membership, members } = this.#deps;
    const address = addressOf(nodeId, membership, members());
    if (address === undefined || this.#stopped) return undefined;
    try {
      const answer = await this.#ask(address, nodeId, knowledge);
      this.#reported.delete(nodeId);
      return answer;
    } catch (error) {
      // Gossip tells of news again.
      this.#seen.delete(nodeId);
      this.#report(nodeId, address, error);
      return undefined;
    }
  }

  /**
   * `nodeId`: of the node that is wanted there; undefined: whoever it is. Resolves with how it answered; undefined where
   * another one did, or once this is stopped.
   */
  async #ask(
    address: string,
    nodeId: string | undefined,
    knowledge = this.#deps.knowledge(),
  ): Promise<Heard | undefined> {
    const { call, clusterId, from, learn } = this.#deps;
    const request = { clusterId, from, knowledge };
    const answer = await call(address, 'exchange', request, { timeoutMs: EXCHANGE_TIMEOUT_MS });
    if (this.#stopped) return undefined;
    // Asked for before anything is taken over: the address may have become another's.
    if (answer.clusterId !== clusterId) {
      throw new Refusal('WRONG_CLUSTER', `this is cluster ${clusterId}, and ${address} answers for another`);
    }
    if (nodeId !== undefined && answer.nodeId !== nodeId) return undefined;
    this.#clocks.heard(answer.nodeId, answer.nowMs);
    await learn(answer.knowledge, answer.nodeId);
    return answer;
  }

  /** All members may have come back at other addresses: whoever is found at a contact knows of those that came before. */
  #askContacts(): void {
    const { contacts, membership, log } = this.#deps;
    if (aliveNodes(membership).length > 0) return;
    for (const address of contacts) {
      this.#ask(address, undefined).catch((error: unknown) =>
        log.debug({ err: error, address }, 'a contact does not answer'),
      );
    }
  }

  /** Silence is nothing special; who answers that it is somebody else needs a person, and is told of once. */
  #report(nodeId: string, address: string, error: unknown): void {
    const { log, members } = this.#deps;
    const isStranger = error instanceof Refusal && (error.reason === 'WRONG_CLUSTER' || error.reason === 'WRONG_KEY');
    if (!isStranger || this.#reported.has(nodeId)) {
      log.debug({ err: error, peer: nodeId }, 'a member did not say what it knows');
      return;
    }
    this.#reported.add(nodeId);
    const { reason, message } = error;
    const member = members().get(nodeId)?.name ?? nodeId;
    log.error({ member, address, reason }, `whoever is where member ${member} was is not of this cluster: ${message}`);
  }

  #pullNews(): void {
    for (const { nodeId, incarnation, stateVersion } of aliveNodes(this.#deps.membership)) {
      const state = `${incarnation}/${stateVersion}`;
      if (this.#seen.get(nodeId) === state || this.#pulling.has(nodeId)) continue;
      this.#seen.set(nodeId, state);
      void this.#pull(nodeId);
    }
  }

  /** One at a time from each: what came up meanwhile comes with the next. */
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

/**
 * Where a node is called: where it says it is while it lives; otherwise where it last said it would be, which is where
 * it is most likely back.
 */
export function addressOf(nodeId: string, membership: Membership, members: Members): string | undefined {
  const peer = membership.peers().find((one) => one.nodeId === nodeId);
  if (peer?.alive) return peer.rpcAddress;
  return members.get(nodeId)?.rpcAddress || peer?.rpcAddress;
}

/** None of the addresses where a cluster was looked for has told of it. */
export class NoNodeAnswersError extends Error {
  override readonly name = 'NoNodeAnswersError';
  /** The first address where whoever calls is refused for the key it has, or lacks. */
  readonly wrongKeyAt: string | undefined;

  constructor(message: string, wrongKeyAt: string | undefined) {
    super(message);
    this.wrongKeyAt = wrongKeyAt;
  }
}

/**
 * What a stranger is told of a cluster: by the first of these addresses that answers. Rejects with `NoNodeAnswersError`, which
 * says what is wrong with each, or with the reason of `signal`.
 */
export async function askCluster(
  call: CallPeer<'exchange'>,
  addresses: readonly string[],
  signal?: AbortSignal,
): Promise<ExchangeResponse> {
  const problems: string[] = [];
  let wrongKeyAt: string | undefined;
  for (const address of addresses) {
    try {
      const request = { clusterId: '', from: '', knowledge: undefined };
      return await call(address, 'exchange', request, { timeoutMs: EXCHANGE_TIMEOUT_MS, signal });
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Refusal && error.reason === 'WRONG_KEY') wrongKeyAt ??= address;
      problems.push(problemAt(address, error instanceof Error ? error.message : String(error)));
    }
  }
  throw new NoNodeAnswersError(problems.join('; '), wrongKeyAt);
}

/** What is wrong at one address of several; who is silent is named in the problem. */
export const problemAt = (address: string, problem: string): string =>
  problem.startsWith(address) ? problem : `${address}: ${problem}`;
