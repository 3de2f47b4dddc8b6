import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Log } from '../ports/log.ts';
import type { Peer } from '../ports/membership.ts';
import { BeatWatch } from './beats.ts';
import { GossipListenError } from './socket.ts';
import type { SwimFigures, SwimMemberOptions } from './swim-member.ts';
import { type FromGossip, type GossipThreadSetup, MAIN_BEAT, THREAD_BEAT, type ToGossip } from './thread-protocol.ts';

/** The thread knows some hundred members: what grows beyond this is a fault, and ends the thread, not the node. */
const THREAD_MIB = { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 128 };
/** A thread that does not end when told to is ended. */
const END_WITHIN_MS = 1000;

export interface GossipWorkerHooks {
  readonly log: Log;
  readonly onPeers: (peers: readonly Peer[]) => void;
  /** Called once, if the thread ends without having been told to, or stands still. */
  readonly onDeath: (error: Error) => void;
}

/** The gossip thread as the main thread sees it. */
export class GossipWorker {
  gossipAddress = '';
  figures: SwimFigures;
  hangs = 0;
  readonly #worker: Worker;
  readonly #hooks: GossipWorkerHooks;
  readonly #ended: Promise<void>;
  readonly #beat: NodeJS.Timeout;
  #over = false;

  /** Resolves when it listens; rejects with what kept it from that. */
  static async start(member: SwimMemberOptions, hangAfterMs: number, hooks: GossipWorkerHooks): Promise<GossipWorker> {
    const setup: GossipThreadSetup = { member, beats: new SharedArrayBuffer(8), hangAfterMs };
    const source = new URL(`./gossip-thread${extname(fileURLToPath(import.meta.url))}`, import.meta.url);
    const worker = new Worker(source, { workerData: setup, name: 'gossip', resourceLimits: THREAD_MIB });
    const gossip = new GossipWorker(worker, setup, hooks);
    try {
      await gossip.#open();
    } catch (error) {
      gossip.#over = true;
      clearInterval(gossip.#beat);
      await worker.terminate();
      throw error;
    }
    return gossip;
  }

  private constructor(worker: Worker, { beats, hangAfterMs }: GossipThreadSetup, hooks: GossipWorkerHooks) {
    this.#worker = worker;
    this.#hooks = hooks;
    const refused = { malformed: 0, oversized: 0, otherCluster: 0, unauthenticated: 0, replayed: 0, misshapen: 0 };
    this.figures = { datagramsIn: 0, datagramsOut: 0, refused, suspicions: 0, deaths: 0 };
    this.#ended = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (message: FromGossip) => this.#receive(message));
    worker.on('error', (error) => this.#die(error));
    worker.on('exit', (code) => this.#die(new Error(`the gossip thread ended with code ${code}`)));
    const shared = new Int32Array(beats);
    const everyMs = Math.max(5, Math.min(250, hangAfterMs / 10));
    const thread = new BeatWatch(() => Atomics.load(shared, THREAD_BEAT), everyMs, performance.now());
    this.#beat = setInterval(() => {
      Atomics.add(shared, MAIN_BEAT, 1);
      // Twice the time: when both stand still because the machine is busy, the node goes silent before it restarts anything.
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
    clearInterval(this.#beat);
  }

  #open(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#worker.on('message', (message: FromGossip) => {
        if (message.kind === 'open') resolve();
        if (message.kind === 'cannotListen') reject(new GossipListenError(message.host, message.port, message.code));
      });
      this.#worker.once('error', reject);
      this.#worker.once('exit', (code) => reject(new Error(`the gossip thread ended with code ${code} at its start`)));
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
    // Before it has opened, whoever starts it is told.
    if (this.gossipAddress === '') return;
    this.#over = true;
    clearInterval(this.#beat);
    void this.#worker.terminate().then(() => this.#hooks.onDeath(error));
  }
}
