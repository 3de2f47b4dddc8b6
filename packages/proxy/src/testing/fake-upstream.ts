import type { Error as WireError } from '@taskmaster/proto';
import {
  LostError,
  RefusedError,
  type RoutedPeer,
  type UnaryMethod,
  type Upstream,
  type UpstreamCallOptions,
  type UpstreamListener,
  type UpstreamPipe,
} from '../upstream/upstream.ts';

export interface Asked {
  readonly address: string;
  readonly method: UnaryMethod;
  readonly request: Uint8Array;
  readonly options: UpstreamCallOptions;
}

/** Nodes whose answers a test chooses. */
export class FakeUpstream implements Upstream {
  readonly asked: Asked[] = [];
  readonly streams: FakePipe[] = [];
  answer: (asked: Asked) => Promise<Uint8Array> | Uint8Array = () => new Uint8Array(0);

  async unary(
    address: string,
    method: UnaryMethod,
    request: Uint8Array,
    options: UpstreamCallOptions,
  ): Promise<Uint8Array> {
    const asked = { address, method, request, options };
    this.asked.push(asked);
    return this.answer(asked);
  }

  stream(address: string, { peer }: { readonly peer: RoutedPeer }, listener: UpstreamListener): UpstreamPipe {
    const pipe = new FakePipe(address, peer.address, listener);
    this.streams.push(pipe);
    return pipe;
  }
}

/** A stream to a fake node that a test controls. */
export class FakePipe implements UpstreamPipe {
  readonly address: string;
  readonly peer: string;
  readonly written: Uint8Array[] = [];
  /** The result of `write`. */
  mayWrite = true;
  held = false;
  state: 'open' | 'ended' | 'aborted' | 'broken' = 'open';
  readonly #listener: UpstreamListener;
  /** Messages of the node while it is held back. */
  #waiting: Uint8Array[] = [];

  constructor(address: string, peer: string, listener: UpstreamListener) {
    this.address = address;
    this.peer = peer;
    this.#listener = listener;
  }

  write(message: Uint8Array): boolean {
    if (this.state !== 'open') return true;
    this.written.push(message);
    return this.mayWrite;
  }

  hold(held: boolean): void {
    this.held = held;
    if (!held) for (const message of this.#waiting.splice(0)) this.say(message);
  }

  end(): void {
    if (this.state === 'open') this.state = 'ended';
  }

  abort(): void {
    if (this.state === 'open') this.state = 'aborted';
  }

  /** The node sends a message. */
  say(message: Uint8Array): void {
    if (this.state !== 'open') return;
    if (this.held) this.#waiting.push(message);
    else this.#listener.onMessage(message);
  }

  /** The node accepts messages again. */
  drain(): void {
    this.mayWrite = true;
    if (this.state === 'open') this.#listener.onDrain();
  }

  /** The stream ends, and this side did not end it. */
  breakWith(failure: RefusedError | LostError): void {
    if (this.state !== 'open') return;
    this.state = 'broken';
    this.#listener.onEnd(failure);
  }
}

export function refused(reason: string, code: number, change: Partial<WireError> = {}): RefusedError {
  return new RefusedError({ code, reason, message: reason, metadata: {}, retryDelayMs: 0, items: [], ...change });
}

export const unsent = (): LostError => new LostError('no connection', 'connection', false);
export const lost = (): LostError => new LostError('the connection broke', 'connection', true);
