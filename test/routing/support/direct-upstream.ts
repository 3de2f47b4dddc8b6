import { type Clock, type Log, sleep } from '@taskmaster/engine/ports';
import {
  callService,
  LostError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamPipe,
} from '@taskmaster/proxy/router';
import type { RawService } from '@taskmaster/server/calls';

/** The fate of one message; `delayMs` in virtual time. */
interface Passage {
  readonly lost: boolean;
  readonly delayMs: number;
}

export interface DirectUpstreamOptions {
  /** The service at an address; undefined: the address does not answer. */
  readonly serviceAt: (address: string) => RawService | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Called for every request and every answer. */
  readonly passage: (address: string, way: 'there' | 'back') => Passage;
  /** Time after which a loss is noticed, in ms. */
  readonly lossMs: number;
}

/** A simulated network of services in one process on virtual time. */
export class DirectUpstream implements Upstream {
  readonly #options: DirectUpstreamOptions;

  constructor(options: DirectUpstreamOptions) {
    this.#options = options;
  }

  /** Calls need no stream. */
  isLocal(): boolean {
    return true;
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const { signal, timeoutMs } = options;
    if (signal?.aborted) throw new LostError('the call was cancelled', 'cancelled', false);
    const answered = this.#carry(address, method, request, options);
    if (timeoutMs === undefined) return answered;
    const over = new AbortController();
    const late = sleep(this.#options.clock, timeoutMs, over.signal).then(() => {
      throw new LostError('no answer came in time', 'deadline', true);
    });
    return Promise.race([answered, late]).finally(() => {
      late.catch(() => {});
      over.abort();
    });
  }

  async #carry(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const { serviceAt, clock, log, passage, lossMs } = this.#options;
    const there = passage(address, 'there');
    await sleep(clock, there.lost ? lossMs : there.delayMs);
    const service = serviceAt(address);
    if (service === undefined) throw new LostError('the address does not answer', 'connection', false);
    if (there.lost) throw new LostError('the request was lost', 'connection', true);
    const outcome = await callService(service, method, request, options, log).then(
      (reply) => ({ reply }),
      (failure: unknown) => ({ failure }),
    );
    const back = passage(address, 'back');
    await sleep(clock, back.lost ? lossMs : back.delayMs);
    if (back.lost) throw new LostError('the answer was lost', 'connection', true);
    if ('failure' in outcome) throw outcome.failure;
    return outcome.reply;
  }

  stream(): UpstreamPipe {
    throw new TypeError('calls are not streamed here');
  }
}
