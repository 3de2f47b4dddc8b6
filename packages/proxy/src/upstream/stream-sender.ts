import { limits } from '@taskmaster/proto';
import type { Sender, SendOptions } from './sender.ts';
import { ENTRY_BYTES, StreamLink, type StreamLinkDeps } from './stream-link.ts';
import { LostError, type UnaryMethod } from './upstream.ts';

/**
 * The calls of one caller over a stream to each node, and more of them where it has very many calls. What is asked in one turn
 * of the event loop travels in one message; a stream that breaks takes only its own calls along.
 */
export class StreamSender implements Sender {
  readonly #deps: StreamLinkDeps;
  /** Never without any. */
  readonly #links = new Map<string, StreamLink[]>();
  #held = false;
  #closed = false;

  constructor(deps: StreamLinkDeps) {
    this.#deps = deps;
  }

  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array> {
    const { upstream, peer } = this.#deps;
    const streamed = method === 'UpdateTasks' || method === 'LeaseTasks';
    // One that fills a message by itself would not fit with the entry around it.
    if (!streamed || request.length + ENTRY_BYTES > limits.requestBytes || upstream.isLocal?.(address)) {
      return upstream.unary(address, method, request, { ...options, peer });
    }
    if (this.#closed) return Promise.reject(new LostError('the caller is gone', 'cancelled', false));
    try {
      return this.#linkTo(address).send(method, request, options);
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  /** Whether answers are to be held back at the nodes. */
  hold(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    for (const link of [...this.#links.values()].flat()) link.hold(held);
  }

  /**
   * Nothing more is sent. Streams end once what was sent is answered: a lease that was given up may have been granted
   * before, and only its answer tells what there is to give back.
   */
  end(): void {
    this.hold(false);
    this.#closed = true;
    for (const link of [...this.#links.values()].flat()) link.end();
  }

  #linkTo(address: string): StreamLink {
    const links = this.#links.get(address);
    const known = links?.find(({ hasRoom }) => hasRoom);
    if (known !== undefined) return known;
    const link = new StreamLink(address, this.#deps, links !== undefined, (ended) => this.#drop(address, ended));
    if (this.#held) link.hold(true);
    if (links === undefined) this.#links.set(address, [link]);
    else links.push(link);
    return link;
  }

  #drop(address: string, ended: StreamLink): void {
    const left = this.#links.get(address)?.filter((link) => link !== ended) ?? [];
    if (left.length > 0) this.#links.set(address, left);
    else this.#links.delete(address);
  }
}
