import { randomBytes } from 'node:crypto';
import { type Log, SystemClock, sleep, systemRandom } from '@taskmaster/engine/ports';
import {
  askCluster,
  type ClockDifference,
  LateRoutes,
  NoNodeAnswersError,
  type Observer,
  openObserver,
  releaseOf,
} from '@taskmaster/server/cluster-view';
import {
  assertResolves,
  GossipListenError,
  type GossipOptions,
  type HeldPort,
  holdPort,
  openGossip,
} from '@taskmaster/server/gossip';
import { type ChannelSecurity, PeerNetwork, PeerSeal } from '@taskmaster/server/grpc';
import type { Membership, MembershipFigures, Routes } from '@taskmaster/server/ports';
import { readClusterKeys } from '@taskmaster/server/program';
import type { ProxyConfig } from './config.ts';

const RETRY_MS = 500;
const LISTEN_RETRY_MS = 5_000;
const SAY_EVERY_MS = 30_000;

/** The name, the ports and the version of a proxy, which it announces to the cluster. */
export interface ProxyAddresses {
  readonly name: string;
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly version: string;
}

/** The routes of a cluster. The proxy learns them as a member of the gossip that holds nothing. */
export interface ObservedRoutes extends Routes, AsyncDisposable {
  /** Resolves when they are known. Rejects if they will never be known: with `ProxyRefusedError` for a key of another cluster. */
  readonly known: Promise<void>;
  /** The reason why they are unknown, as text. Undefined if they are known, or if the reason is unknown. */
  problem(): string | undefined;
  /** Figures of the gossip. Undefined before the proxy has joined it. */
  gossip(): MembershipFigures | undefined;
  /** Id of the cluster. Empty: it is unknown yet. */
  clusterId(): string;
  /** How far the system clocks of members are ahead of this one. */
  clocks(): readonly ClockDifference[];
}

/**
 * The cluster refuses this proxy.
 *
 * @public
 */
export class ProxyRefusedError extends Error {
  override readonly name = 'ProxyRefusedError';

  /** The cluster refuses the key of the proxy. */
  static forKey(address: string, keyFile: string, options: ErrorOptions): ProxyRefusedError {
    const has = keyFile === '' ? 'the proxy has none' : `the keys in ${keyFile} belong to another cluster`;
    const message = `${address} refuses the cluster key of this proxy: ${has} (--cluster-key-file)`;
    return new ProxyRefusedError(message, options);
  }
}

/**
 * Learns the routes of the cluster to which the addresses of `join` belong. Resolves before they are known, and asks until one of
 * the addresses answers. Rejects with `InvalidConfigError` if a key file cannot be used, with `AdvertiseHostUnknownError` if the
 * advertised host name cannot be resolved, and with `GossipListenError` if the gossip port is taken.
 */
export async function openObservedRoutes(
  config: ProxyConfig,
  addresses: ProxyAddresses,
  { channels, log }: { readonly channels: ChannelSecurity; readonly log: Log },
): Promise<ObservedRoutes> {
  const keys = readClusterKeys(config.cluster.keyFile);
  const routes = new LateRoutes();
  const opened = new AsyncDisposableStack();
  const closing = new AbortController();
  const { advertiseHost } = config.cluster;
  if (advertiseHost !== '') await assertResolves(advertiseHost);
  const port = await holdPort(config.host, config.gossipPort);
  const network = opened.use(new PeerNetwork(new PeerSeal(keys), undefined, channels));
  let problem: string | undefined;
  let membership: Membership | undefined;
  let observer: Observer | undefined;
  let cluster = '';
  const parts: Joining = {
    config,
    addresses,
    keys,
    port,
    network,
    routes,
    opened,
    log,
    signal: closing.signal,
    joined: (joined, observing, clusterId) => {
      cluster = clusterId;
      membership = joined;
      observer = observing;
    },
    onAsking: (found) => {
      problem = found;
    },
  };
  const known = join(parts);
  const joining = known.catch(() => {});
  opened.defer(async () => {
    closing.abort();
    await joining;
    await port.release();
  });
  return Object.assign(routes, {
    known,
    problem: () => problem,
    gossip: () => membership?.figures(),
    clusterId: () => cluster,
    clocks: () => observer?.clockDifferences ?? [],
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  });
}

interface Joining {
  readonly config: ProxyConfig;
  readonly addresses: ProxyAddresses;
  readonly keys: readonly string[];
  readonly port: HeldPort;
  readonly network: PeerNetwork;
  readonly routes: LateRoutes;
  readonly opened: AsyncDisposableStack;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly joined: (membership: Membership, observer: Observer, clusterId: string) => void;
  /** Called with the problems of the addresses when none of them answers. */
  readonly onAsking: (problem: string) => void;
}

async function join(parts: Joining): Promise<void> {
  const { config, addresses, keys, port, network, routes, opened, log, signal } = parts;
  const clock = new SystemClock();
  const { call } = network;
  const { clusterId, partitions, knowledge } = await askUntilAnswered(parts);
  const { advertiseHost } = config.cluster;
  const { grpcPort, httpPort, version } = addresses;
  const addressesAt = (host: string) => ({ rpcAddress: `${host}:${grpcPort}`, httpAddress: `${host}:${httpPort}` });
  await port.release();
  const options: GossipOptions = {
    self: {
      // A proxy has no disk to keep an id: every start has a new one.
      nodeId: randomBytes(8).toString('hex'),
      name: addresses.name,
      role: 'proxy',
      ...addressesAt(advertiseHost || config.host),
      version,
      stateVersion: 1,
      incarnation: Math.floor(Date.now() / 1000),
    },
    clusterId,
    keys,
    seeds: (knowledge?.members ?? []).map(({ gossipAddress }) => gossipAddress).filter((address) => address !== ''),
    listen: { host: config.host, port: config.gossipPort },
    ...(advertiseHost !== '' && { advertise: advertiseHost }),
    log,
  };
  const membership = await openUntilListening(options, signal);
  if (signal.aborted) return membership.close();
  opened.defer(() => membership.leave());
  if (advertiseHost === '') membership.announce(addressesAt(membership.gossipAddress.split(':')[0] ?? ''));
  const observer = openObserver({
    membership,
    call,
    clock,
    random: systemRandom,
    log,
    clusterId,
    partitions,
    knowledge,
    contacts: config.join,
  });
  opened.defer(() => observer.stop());
  routes.become(observer);
  parts.joined(membership, observer, clusterId);
  log.info({ clusterId, partitions }, 'found the cluster');
}

/** Opens gossip. Tries again if another process has the port: it was free for a moment between the two sockets. */
async function openUntilListening(options: GossipOptions, signal: AbortSignal): ReturnType<typeof openGossip> {
  for (;;) {
    try {
      return await openGossip(options);
    } catch (error) {
      if (!(error instanceof GossipListenError)) throw error;
      options.log.error({ err: error }, 'gossip cannot listen; it tries again');
    }
    await sleep(new SystemClock(), LISTEN_RETRY_MS, signal);
  }
}

async function askUntilAnswered({
  config,
  addresses,
  network,
  log,
  signal,
  onAsking,
}: Joining): ReturnType<typeof askCluster> {
  const { join, cluster } = config;
  const clock = new SystemClock();
  let said = Number.NEGATIVE_INFINITY;
  for (;;) {
    try {
      return await askCluster(network.call, join, releaseOf(addresses.version), signal);
    } catch (error) {
      if (!(error instanceof NoNodeAnswersError)) throw error;
      if (error.wrongKeyAt !== undefined)
        throw ProxyRefusedError.forKey(error.wrongKeyAt, cluster.keyFile, { cause: error });
      if (error.incompatible !== undefined) throw new ProxyRefusedError(error.incompatible, { cause: error });
      const problem = error.message;
      onAsking(problem);
      if (clock.now() - said >= SAY_EVERY_MS) {
        said = clock.now();
        log.warn({ join, problem }, 'no node of the cluster answers; calls are refused until one does');
      }
    }
    await sleep(clock, RETRY_MS, signal);
  }
}
