import type { Instant } from '@taskmaster/engine/domain';
import type { VirtualTime } from '@taskmaster/engine/testing';
import type { CallPeer, PeerCalls } from '@taskmaster/server/ports';
import { callPeersOver, LinkBrokenError, type PeerPassage, type ServePeer } from '@taskmaster/server/testing';
import type { TransferMethod } from '../cluster/placement/handoff/transfer-calls.ts';

/** Faults of the link. `request` and `answer` are called with each message; a message is lost if they throw. */
export interface LinkFaults {
  request?: (from: string, method: TransferMethod, request: PeerCalls[TransferMethod][0]) => void;
  answer?: (from: string, method: TransferMethod) => void;
  /** True if the called node does not answer within the timeout. Asked when the call is made. */
  stands?: (method: TransferMethod) => boolean;
  /** How often the called node receives the call. Default once. */
  copies?: (method: TransferMethod) => number;
}

/** One run of a node. A node that starts again is another run. */
export interface LinkedRun {
  readonly serve: ServePeer;
}

interface FaultyLinkOptions {
  readonly time: VirtualTime;
  readonly faults: LinkFaults;
  /** The run of the node at an address; undefined while it is down. */
  readonly runAt: (address: string) => LinkedRun | undefined;
}

/** Calls between nodes that arrive after 1 ms, with faults that a test chooses. */
export class FaultyLink {
  readonly #options: FaultyLinkOptions;

  constructor(options: FaultyLinkOptions) {
    this.#options = options;
  }

  callFrom(from: string): CallPeer<TransferMethod> {
    return (address, method, message, options) =>
      callPeersOver((passage) => this.#carry(from, message, passage))(address, method, message, options);
  }

  async #carry(from: string, message: PeerCalls[TransferMethod][0], passage: PeerPassage): Promise<Buffer> {
    const { time, faults } = this.#options;
    const { address, request, options } = passage;
    const method = passage.method as TransferMethod;
    const deadline = time.now() + options.timeoutMs;
    await this.#travel();
    options.signal?.throwIfAborted();
    if (faults.stands?.(method)) {
      await this.#travel(options.timeoutMs);
      throw new LinkBrokenError(`${address} does not answer`, true);
    }
    faults.request?.(from, method, message);
    let answer: Buffer | undefined;
    for (let copies = faults.copies?.(method) ?? 1; copies > 0; copies--) {
      const run = await this.#connected(passage, deadline);
      answer = await this.#answered(passage, run, run.serve(method, request), deadline);
    }
    await this.#travel();
    faults.answer?.(from, method);
    if (answer === undefined) throw new LinkBrokenError('the request is lost', true);
    return answer;
  }

  async #connected({ address, options }: PeerPassage, deadline: number): Promise<LinkedRun> {
    const { time, runAt } = this.#options;
    for (;;) {
      const run = runAt(address);
      if (run !== undefined) return run;
      if (options.waitForConnection !== true || time.now() >= deadline) {
        throw new LinkBrokenError(`${address} is down`, false);
      }
      await this.#travel();
    }
  }

  /** Rejects if the node goes down before it answers, as a broken connection would: the answer itself never settles then. */
  async #answered(
    { address, options }: PeerPassage,
    run: LinkedRun,
    answer: Promise<Buffer>,
    deadline: number,
  ): Promise<Buffer> {
    const { time, runAt } = this.#options;
    let settled = false;
    const over = (): void => {
      settled = true;
    };
    answer.then(over, over);
    while (!settled) {
      if (runAt(address) !== run) throw new LinkBrokenError(`${address} went down`, true);
      if (time.now() >= deadline) throw new LinkBrokenError(`${address} does not answer`, true);
      options.signal?.throwIfAborted();
      await this.#travel();
    }
    return answer;
  }

  #travel(ms = 1): Promise<void> {
    const { time } = this.#options;
    return new Promise((resolve) => time.at((time.now() + ms) as Instant, resolve));
  }
}
