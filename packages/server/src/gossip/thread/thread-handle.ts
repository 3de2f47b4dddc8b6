import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Log } from '@taskmaster/engine/ports';
import type { Peer } from '../../ports/membership.ts';
import { GossipListenError } from '../datagrams/socket.ts';
import type { SwimFigures, SwimMemberOptions } from '../swim/swim-member.ts';
import { HeartbeatWatch } from './heartbeats.ts';
import {
  type FromGossip,
  type GossipThreadSetup,
  MAIN_HEARTBEAT,
  THREAD_HEARTBEAT,
  type ToGossip,
} from './thread-protocol.ts';

/**
 * Memory limits of the thread. They suffice for some hundred members. If a bug exceeds them, the thread ends and not the node.
 */
const THREAD_MIB = { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 128 };
/** A thread that does not stop within this time is terminated, in ms. */
const END_WITHIN_MS = 1000;

export interface GossipThreadHooks {
  readonly log: Log;
  readonly onPeers: (peers: readonly Peer[]) => void;
  /** Called once if the thread ends unexpectedly, or stands still. */
  readonly onDeath: (error: Error) => void;
}

/** Controls the gossip thread from the main thread. */
export class GossipThreadHandle {
  gossipAddress = '';
  figures: SwimFigures;
  hangs = 0;
  readonly #worker: Worker;
  readonly #hooks: GossipThreadHooks;
  readonly #ended: Promise<void>;
  readonly #heartbeat: NodeJS.Timeout;
  #over = false;

  /** Starts the thread. Resolves when it listens. Rejects with the error if it cannot. */
  static async start(
    member: SwimMemberOptions,
    hangAfterMs: number,
    hooks: GossipThreadHooks,
  ): Promise<GossipThreadHandle> {
    const setup: GossipThreadSetup = { member, heartbeats: new SharedArrayBuffer(8), hangAfterMs };
    const source = new URL(`./gossip-thread${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    const worker = new Worker(source, { workerData: setup, name: 'gossip', resourceLimits: THREAD_MIB });
    const gossip = new GossipThreadHandle(worker, setup, hooks);
    try {
      await gossip.#open();
    } catch (error) {
      gossip.#over = true;
      clearInterval(gossip.#heartbeat);
      await worker.terminate();
      throw error;
    }
    return gossip;
  }

  private constructor(worker: Worker, { heartbeats, hangAfterMs }: GossipThreadSetup, hooks: GossipThreadHooks) {
    this.#worker = worker;
    this.#hooks = hooks;
    const refused = { malformed: 0, oversized: 0, otherCluster: 0, unauthenticated: 0, replayed: 0, misshapen: 0 };
    this.figures = { datagramsIn: 0, datagramsOut: 0, refused, suspicions: 0, deaths: 0 };
    this.#ended = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (message: FromGossip) => this.#receive(message));
    worker.on('error', (error) => this.#die(error));
    worker.on('exit', (code) => this.#die(new Error(`the gossip thread ended with code ${code}`)));
    const shared = new Int32Array(heartbeats);
    const everyMs = Math.max(5, Math.min(250, hangAfterMs / 10));
    const thread = new HeartbeatWatch(() => Atomics.load(shared, THREAD_HEARTBEAT), everyMs, performance.now());
    this.#heartbeat = setInterval(() => {
      Atomics.add(shared, MAIN_HEARTBEAT, 1);
      // Twice the time: if both threads stand still because the machine is busy, the node goes silent before it restarts the
      // thread.
      if (thread.look(performance.now()) >= 2 * hangAfterMs && this.gossipAddress !== '') {
        this.#die(new Error('the gossip thread hangs'));
      }
    }, everyMs);
  }

  post(message: ToGossip): void {
    if (!this.#over) this.#worker.postMessage(message);
  }

  async end(how: 'leave' | 'close'): Promise<void> {
    this.post({ kind: how });
    this.#over = true;
    const late = setTimeout(() => void this.#worker.terminate(), END_WITHIN_MS);
    await this.#ended;
    clearTimeout(late);
    clearInterval(this.#heartbeat);
  }

  #open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#worker.on('message', (message: FromGossip) => {
        if (message.kind === 'open') resolve();
        if (message.kind === 'cannotListen') reject(new GossipListenError(message.host, message.port, message.code));
      });
      this.#worker.once('error', reject);
      this.#worker.once('exit', (code) =>
        reject(new Error(`the gossip thread ended with code ${code} while it started`)),
      );
    });
  }

  #receive(message: FromGossip): void {
    switch (message.kind) {
      case 'open':
        this.gossipAddress = message.gossipAddress;
        return;
      case 'peers':
        this.#hooks.onPeers(message.peers);
        return;
      case 'figures':
        this.figures = message.figures;
        this.hangs = message.hangs;
        return;
      case 'log':
        this.#hooks.log[message.level](message.details, message.message);
        return;
      default:
    }
  }

  #die(error: Error): void {
    if (this.#over) return;
    // Until it has opened, `start` rejects instead.
    if (this.gossipAddress === '') return;
    this.#over = true;
    clearInterval(this.#heartbeat);
    void this.#worker.terminate().then(() => this.#hooks.onDeath(error));
  }
}
