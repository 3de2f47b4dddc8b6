import { limits } from '@taskmaster/proto';
import type { Sender, SendOptions } from './sender.ts';
import { ENTRY_BYTES, StreamLink, type StreamLinkDeps } from './stream-link.ts';
import { LostError, type UnaryMethod } from './upstream.ts';

/**
 * Sends the calls of one caller over a stream to each node, or over several if it has very many calls. Calls of one turn of the
 * event loop share a message. A stream that breaks fails only its own calls.
 */
export class StreamSender implements Sender {
  readonly #deps: StreamLinkDeps;
  /** By address. No list is empty. */
  readonly #links = new Map<string, StreamLink[]>();
  #held = false;
  #closed = false;

  constructor(deps: StreamLinkDeps) {
    this.#deps = deps;
  }

  send(address: string, method: UnaryMethod, request: Uint8Array, options: SendOptions): Promise<Uint8Array> {
    const { upstream, peer } = this.#deps;
    const streamed = method === 'UpdateTasks' || method === 'LeaseTasks';
    // A call that fills a message alone does not fit together with its entry.
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

  /** Starts or stops holding answers back at the nodes. */
  hold(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    for (const link of [...this.#links.values()].flat()) link.hold(held);
  }

  /**
   * Sends no more calls. Streams end when all sent calls are answered: a cancelled lease may have been granted before, and only
   * its answer tells which tasks to release.
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
