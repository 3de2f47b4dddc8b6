import {
  callService,
  LostError,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamPipe,
} from '@taskmaster/proxy/router';
import { type Clock, type Log, sleep } from '@taskmaster/server/ports';
import type { RawService } from '@taskmaster/server/service';

/** What becomes of one message on its way; `delayMs` in virtual time. */
interface Passage {
  readonly lost: boolean;
  readonly delayMs: number;
}

export interface DirectUpstreamOptions {
  /** By address; undefined: nobody is there. */
  readonly serviceAt: (address: string) => RawService | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Asked for every request and every answer. */
  readonly passage: (address: string, way: 'there' | 'back') => Passage;
  /** What is lost is noticed after so long, in ms. */
  readonly lossMs: number;
}

/** A network of services in one process on virtual time, for simulations. */
export class DirectUpstream implements Upstream {
  readonly #options: DirectUpstreamOptions;

  constructor(options: DirectUpstreamOptions) {
    this.#options = options;
  }

  /** Every call travels by itself. */
  isLocal(): boolean {
    return true;
  }

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const { serviceAt, clock, log, passage, lossMs } = this.#options;
    const there = passage(address, 'there');
    await sleep(clock, there.lost ? lossMs : there.delayMs);
    const service = serviceAt(address);
    if (service === undefined) throw new LostError('nobody is there', 'connection', false);
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
