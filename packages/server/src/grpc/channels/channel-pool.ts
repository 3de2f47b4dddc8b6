import { Client } from '@grpc/grpc-js';
import type { ChannelSecurity } from './channel-credentials.ts';

/** A channel is closed when it has been idle for this long, in ms. */
const IDLE_MS = 10 * 60 * 1000;
/**
 * Maximum number of calls at the same time over one connection. A stream counts as one call. It is what servers usually allow:
 * HTTP/2 lets further calls wait silently until others end, and streams do not end.
 */
const CALLS_PER_CHANNEL = 100;

export interface Channel<Own> {
  readonly client: Client;
  /** What belongs to this channel alone. */
  readonly own: Own;
  calls: number;
  usedAt: number;
}

/**
 * gRPC channels to other programs. An address has one channel for each use, opened for the first call, and more when it is full.
 */
export class ChannelPool<Own> implements Disposable {
  readonly #security: ChannelSecurity;
  readonly #ownOf: () => Own;
  readonly #channels = new Map<string, Channel<Own>[]>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(security: ChannelSecurity, ownOf: () => Own) {
    this.#security = security;
    this.#ownOf = ownOf;
    this.#sweeper = setInterval(() => this.#sweep(), IDLE_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweeper);
    for (const { client } of [...this.#channels.values()].flat()) client.close();
    this.#channels.clear();
  }

  /** Takes a place in a channel. `release` it when the call is over. `use`: only calls of the same use share a channel. */
  take(address: string, use = ''): Channel<Own> {
    const key = `${address} ${use}`;
    const channels = this.#channels.get(key) ?? [];
    this.#channels.set(key, channels);
    let channel = channels.find(({ calls }) => calls < CALLS_PER_CHANNEL);
    if (channel === undefined) {
      const { credentials, optionsOf } = this.#security;
      channel = {
        client: new Client(address, credentials, optionsOf(address)),
        own: this.#ownOf(),
        calls: 0,
        usedAt: 0,
      };
      channels.push(channel);
    }
    channel.calls++;
    return channel;
  }

  release(channel: Channel<Own>): void {
    channel.calls--;
    channel.usedAt = performance.now();
  }

  #sweep(): void {
    for (const [key, channels] of this.#channels) {
      const isUsed = ({ calls, usedAt }: Channel<Own>): boolean => calls > 0 || performance.now() - usedAt < IDLE_MS;
      for (const channel of channels) if (!isUsed(channel)) channel.client.close();
      const used = channels.filter(isUsed);
      if (used.length > 0) this.#channels.set(key, used);
      else this.#channels.delete(key);
    }
  }
}
