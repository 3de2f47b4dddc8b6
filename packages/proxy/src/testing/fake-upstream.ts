import type { Error as WireError } from '@taskmaster/proto';
import {
  LostError,
  RefusedError,
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

/** Nodes that answer what a test tells them to. */
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

  stream(address: string, { peer }: { readonly peer: string }, listener: UpstreamListener): UpstreamPipe {
    const pipe = new FakePipe(address, peer, listener);
    this.streams.push(pipe);
    return pipe;
  }
}

/** A stream to a fake node. */
export class FakePipe implements UpstreamPipe {
  readonly address: string;
  readonly peer: string;
  readonly listener: UpstreamListener;
  readonly written: Uint8Array[] = [];
  mayWrite = true;
  held = false;
  state: 'open' | 'ended' | 'aborted' = 'open';

  constructor(address: string, peer: string, listener: UpstreamListener) {
    this.address = address;
    this.peer = peer;
    this.listener = listener;
  }

  write(message: Uint8Array): boolean {
    this.written.push(message);
    return this.mayWrite;
  }

  hold(held: boolean): void {
    this.held = held;
  }

  end(): void {
    this.state = 'ended';
  }

  abort(): void {
    this.state = 'aborted';
  }
}

export function refused(reason: string, code: number, change: Partial<WireError> = {}): RefusedError {
  return new RefusedError({ code, reason, message: reason, metadata: {}, retryDelayMs: 0, items: [], ...change });
}

export const unsent = (): LostError => new LostError('no connection', 'connection', false);
export const lost = (): LostError => new LostError('the connection broke', 'connection', true);
