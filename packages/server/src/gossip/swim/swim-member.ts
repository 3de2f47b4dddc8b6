import type { Socket } from 'node:dgram';
import type { Log } from '@taskmaster/engine/ports';
import Swim, { type SwimMembership, type SwimNet } from '#swim';
import type { DatagramRefusal, MemberMeta, Peer } from '../../ports/membership.ts';
import {
  firstIncarnation,
  type MemberData,
  MemberState,
  MessageKind,
  packMeta,
  parseMessages,
} from '../datagrams/messages.ts';
import { Seal } from '../datagrams/seal.ts';
import { advertisedAddress, bindSocket } from '../datagrams/socket.ts';
import { Directory } from './directory.ts';
import type { GossipTiming, LinkFault } from './options.ts';
import { Seeds } from './seeds.ts';
import { SuspicionTimers } from './suspicion-timers.ts';

/** Size limit of a body, in bytes. With its seal it fits into one packet of any network. */
const MAX_BODY_BYTES = 1200;
/** Changes of the description are announced at most this often, in ms, so that many changes of `stateVersion` become one. */
const ANNOUNCE_EVERY_MS = 50;
/** Time for the announcement of a leave before the socket closes, in ms. */
const LEAVE_MS = 20;

export interface SwimMemberOptions {
  readonly meta: MemberMeta;
  readonly clusterId: string;
  readonly keys: readonly string[];
  readonly seeds: readonly string[];
  readonly listen: { readonly host: string; readonly port: number };
  readonly advertise?: string;
  readonly timing: GossipTiming;
  /** Number of the start of gossip within this start of the member. */
  readonly threadStart: number;
}

export interface SwimMemberHooks {
  readonly log: Log;
  readonly onPeers: (peers: readonly Peer[]) => void;
  readonly link?: LinkFault;
}

export interface SwimFigures {
  datagramsIn: number;
  datagramsOut: number;
  refused: Record<DatagramRefusal, number>;
  suspicions: number;
  deaths: number;
}

/**
 * A member of the gossip. It uses swim 0.6.0 as published, and replaces its socket, its checks and its suspicions.
 *  M1  swim receives only valid messages of peers with our key, each of them once.
 *  M2  swim never resolves a name and never sees an error of the socket. Either would end the process.
 *  M3  A member that answers during its suspicion is not declared dead. A member that stood still meanwhile declares no member
 *      dead.
 */
export class SwimMember {
  readonly gossipAddress: string;
  readonly figures: SwimFigures = {
    datagramsIn: 0,
    datagramsOut: 0,
    refused: { malformed: 0, oversized: 0, otherCluster: 0, unauthenticated: 0, replayed: 0, misshapen: 0 },
    suspicions: 0,
    deaths: 0,
  };
  readonly #options: SwimMemberOptions;
  readonly #hooks: SwimMemberHooks;
  readonly #socket: Socket;
  readonly #swim: Swim<MemberData>;
  readonly #seal: Seal;
  readonly #seeds: Seeds;
  readonly #directory: Directory;
  readonly #suspicions: SuspicionTimers;
  readonly #diedAt = new Map<string, number>();
  readonly #told = new Set<DatagramRefusal>();
  #resync: NodeJS.Timeout | undefined;
  #announcing: NodeJS.Timeout | undefined;
  #publishing = false;
  #meta: MemberMeta;
  #silent = false;
  #closed = false;

  /** Opens the member. Rejects with `GossipListenError` or `MetaTooLargeError`. */
  static async open(options: SwimMemberOptions, hooks: SwimMemberHooks): Promise<SwimMember> {
    packMeta(options.meta);
    let member: SwimMember | undefined;
    const seeds = new Seeds(options.seeds, hooks.log, () => {
      if (member) member.#tick();
    });
    const { host, port } = options.listen;
    const socket = await bindSocket(host, port);
    const address = await advertisedAddress(host, options.advertise, socket.address().port);
    member = new SwimMember(options, hooks, socket, address, seeds);
    return member;
  }

  private constructor(
    options: SwimMemberOptions,
    hooks: SwimMemberHooks,
    socket: Socket,
    gossipAddress: string,
    seeds: Seeds,
  ) {
    const { meta, timing, threadStart, clusterId, keys } = options;
    const { nodeId, incarnation } = meta;
    this.#options = options;
    this.#hooks = hooks;
    this.#meta = meta;
    this.#socket = socket;
    this.#seeds = seeds;
    this.gossipAddress = gossipAddress;
    this.#seal = new Seal({ clusterId, keys, nodeId, incarnation, threadStart });
    this.#directory = new Directory(nodeId, timing.forgetAfterMs);
    this.#swim = new Swim<MemberData>({
      local: { host: gossipAddress, meta: packMeta(meta), incarnation: firstIncarnation(incarnation) + threadStart },
      codec: 'msgpack',
      interval: timing.intervalMs,
      pingTimeout: timing.pingTimeoutMs,
      pingReqTimeout: timing.pingReqTimeoutMs,
      pingReqGroupSize: 3,
      suspectTimeout: timing.suspectTimeoutMs,
      udp: { maxDgramSize: MAX_BODY_BYTES },
      preferCurrentMeta: true,
    });
    const { net, membership } = this.#swim;
    assertReplaceable(net, membership);
    this.#suspicions = new SuspicionTimers(timing, {
      isSuspect: (peer) => membership.hostToMember[peer]?.state === MemberState.suspect,
      probe: (peer) => this.#probe(peer),
      isSilent: () => this.#silent,
      onDead: (peer) => this.#declareDead(peer),
    });
    this.#replaceNet(net);
    membership.suspectListener = (member) => this.#suspect(member.data());
    net.on('ack', (_data, from: string) => this.#suspicions.heard(from));
    membership.on('update', () => this.#publishSoon());
    this.#swim.bootstrap([], () => {});
    this.#resync = setInterval(() => this.#tick(), timing.resyncMs);
    setImmediate(() => this.#tick());
  }

  peers(): readonly Peer[] {
    return this.#directory.peers();
  }

  /** Changes the description. Throws `MetaTooLargeError`. */
  announce(meta: MemberMeta): void {
    packMeta(meta);
    this.#meta = meta;
    if (this.#announcing || this.#closed) return;
    this.#swim.membership.updateMeta(packMeta(meta));
    this.#announcing = setTimeout(() => {
      this.#announcing = undefined;
      if (this.#meta !== meta) this.announce(this.#meta);
    }, ANNOUNCE_EVERY_MS);
  }

  /** A silent member sends no answers, so its peers declare it dead. It declares no member dead. */
  setSilent(silent: boolean): void {
    if (silent === this.#silent || this.#closed) return;
    this.#silent = silent;
    if (silent) {
      this.#swim.failureDetector.stop();
    } else {
      this.#swim.failureDetector.start();
      this.#tick();
    }
  }

  async leave(): Promise<void> {
    if (this.#closed) return;
    const { net, membership } = this.#swim;
    const own = { ...membership.local.data(), state: MemberState.faulty };
    const hosts = membership.all(false, false).map(({ host }) => host);
    this.#stop();
    // Twice, because a datagram may be lost. Peers also tell each other.
    for (const _ of [1, 2]) {
      for (const host of hosts) net.sendMessages([{ type: MessageKind.update, data: own }], host);
      await new Promise((resolve) => setTimeout(resolve, LEAVE_MS / 2));
    }
    this.close();
  }

  close(): void {
    if (this.#closed) return;
    this.#stop();
    this.#closed = true;
    this.#swim.leave();
    this.#socket.close();
  }

  #stop(): void {
    clearInterval(this.#resync);
    clearTimeout(this.#announcing);
    this.#suspicions.stop();
    this.#socket.removeAllListeners('message');
  }

  #replaceNet(net: SwimNet): void {
    net.udpSocket.close();
    net.listen = (callback) => callback();
    net.close = () => {};
    net.sendBuffer = (body, host) => this.#send(body, host);
    this.#socket.on('message', (datagram, { address, port }) => this.#receive(datagram, `${address}:${port}`));
  }

  #send(body: Buffer, to: string): void {
    if (this.#silent || this.#closed) return;
    const sealed = this.#seal.seal(body);
    this.figures.datagramsOut++;
    for (const delayMs of this.#hooks.link?.(this.gossipAddress, to) ?? [0]) {
      if (delayMs === 0) this.#post(sealed, to);
      else setTimeout(() => this.#post(sealed, to), delayMs);
    }
  }

  #post(datagram: Buffer, to: string): void {
    if (this.#closed) return;
    const [address, port] = to.split(':');
    // A datagram to an unreachable address is lost.
    this.#socket.send(datagram, Number(port), address, () => {});
  }

  #receive(datagram: Buffer, from: string): void {
    this.figures.datagramsIn++;
    if (this.#silent) return;
    const { codec, net } = this.#swim;
    const opened = this.#seal.open(datagram);
    if ('refused' in opened) {
      this.#refuse(opened.refused, from);
      return;
    }
    const messages = parseMessages(opened.body, (bytes) => codec.decode(bytes));
    if (!messages) this.#refuse('misshapen', from);
    for (const { event, data } of messages ?? []) net.emit(event, data, from);
  }

  #refuse(reason: DatagramRefusal, from: string): void {
    this.figures.refused[reason]++;
    // A network may repeat datagrams. Any other reason is logged once.
    if (reason === 'replayed' || this.#told.has(reason)) return;
    this.#told.add(reason);
    this.#hooks.log.warn(
      { reason, from },
      `gossip refused a datagram: ${REFUSED[reason]}; further ones are only counted`,
    );
  }

  #suspect(member: MemberData): void {
    if (this.#closed || this.#suspicions.runs(member.host)) return;
    const { membership } = this.#swim;
    const known = membership.hostToMember[member.host];
    if (!known || known.incarnation !== member.incarnation) return; // it has objected meanwhile
    this.figures.suspicions++;
    membership.onUpdate({ ...member, state: MemberState.suspect });
    this.#suspicions.start(member.host);
  }

  /** Probes a suspect. Its next datagram carries the objection. */
  #probe(host: string): void {
    const { membership, net, failureDetector } = this.#swim;
    const member = membership.hostToMember[host];
    if (!member) return;
    const messages = [
      { type: MessageKind.update, data: member.data() },
      { type: MessageKind.ping, data: { seq: failureDetector.seq++ } },
    ];
    net.sendMessages(messages, host);
  }

  #declareDead(host: string): void {
    const member = this.#swim.membership.hostToMember[host]?.data();
    if (!member) return;
    this.figures.deaths++;
    this.#swim.membership.onUpdate({ ...member, state: MemberState.faulty });
  }

  seek(addresses: readonly string[]): void {
    this.#seeds.replace(addresses);
    this.#tick();
  }

  /** Exchanges the list of members. swim itself does that only when it joins, and never contacts dead members again. */
  #tick(): void {
    if (this.#silent || this.#closed) return;
    const { membership } = this.#swim;
    const alive = Object.keys(membership.hostToMember);
    const faulty = this.#forgetLongDead(Object.keys(membership.hostToFaulty));
    const seeds = this.#seeds.addresses().filter((seed) => !membership.hostToMember[seed]);
    const hosts = new Set([...seeds, ...anyOf(faulty), ...anyOf(alive)]);
    hosts.delete(this.gossipAddress);
    membership.sync([...hosts]);
    this.#publishSoon();
  }

  #forgetLongDead(faulty: readonly string[]): string[] {
    const now = performance.now();
    for (const host of this.#diedAt.keys()) if (!faulty.includes(host)) this.#diedAt.delete(host);
    return faulty.filter((host) => {
      const diedAt = this.#diedAt.get(host) ?? now;
      this.#diedAt.set(host, diedAt);
      if (now - diedAt < this.#options.timing.forgetAfterMs) return true;
      delete this.#swim.membership.hostToFaulty[host];
      return false;
    });
  }

  #publishSoon(): void {
    if (this.#publishing) return;
    this.#publishing = true;
    setImmediate(() => {
      this.#publishing = false;
      if (!this.#closed) this.#publish();
    });
  }

  #publish(): void {
    const { membership } = this.#swim;
    const { changed, replaced } = this.#directory.update(membership.all(false, true), performance.now());
    for (const host of replaced) {
      const member = membership.hostToMember[host]?.data();
      if (member) membership.onUpdate({ ...member, state: MemberState.faulty });
    }
    if (changed) this.#hooks.onPeers(changed);
  }
}

const REFUSED: Record<DatagramRefusal, string> = {
  malformed: 'it is not one of a TaskMaster member',
  oversized: 'it is longer than members send',
  otherCluster: 'it belongs to another cluster',
  unauthenticated: 'it is not sealed with a key of this cluster',
  replayed: 'it came before',
  misshapen: 'a member of another version may have sent it',
};

function anyOf(hosts: readonly string[]): readonly string[] {
  const at = Math.floor(Math.random() * hosts.length);
  return hosts.slice(at, at + 1);
}

/** Throws if this version of swim lacks the parts that are replaced here: it would run unprotected. */
function assertReplaceable(net: SwimNet, membership: SwimMembership<MemberData>): void {
  const needed = [net.listen, net.close, net.sendBuffer, net.sendMessages, membership.suspectListener, membership.sync];
  if (needed.some((member) => typeof member !== 'function') || !membership.hostToFaulty) {
    throw new Error('gossip needs swim 0.6.0; this is another version');
  }
}
