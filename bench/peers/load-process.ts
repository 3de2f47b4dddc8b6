import type { PeerClient } from './clients/client.ts';
import { peerNamed } from './peers.ts';
import { PeerLoad, type WorkloadRequest, type WorkloadResult } from './workloads.ts';

/*
 * The process that generates load for a peer, through the peer's own library. It ends when its parent ends.
 */

/** A request of the parent. */
export type PeerRequest =
  | { readonly kind: 'connect'; readonly peer: string; readonly endpoint: string }
  | { readonly kind: 'run'; readonly request: WorkloadRequest }
  | { readonly kind: 'close' };

/** A reply to the parent, one for each request. */
export type PeerReply =
  | { readonly kind: 'connected'; readonly version: string }
  | { readonly kind: 'ran'; readonly result: WorkloadResult | undefined }
  | { readonly kind: 'closed' }
  | { readonly kind: 'failed'; readonly error: string };

let client: PeerClient | undefined;
let load: PeerLoad | undefined;

process.on('message', (request: PeerRequest) => {
  answer(request).then(send, (error: unknown) =>
    send({ kind: 'failed', error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
process.once('disconnect', () => process.exit(0));
// The parent handles Ctrl-C.
process.on('SIGINT', () => {});

async function answer(request: PeerRequest): Promise<PeerReply> {
  switch (request.kind) {
    case 'connect': {
      const peer = peerNamed(request.peer);
      if (peer === undefined) throw new TypeError(`there is no peer ${request.peer}`);
      client = await peer.connect(request.endpoint);
      load = new PeerLoad(client);
      return { kind: 'connected', version: client.version };
    }
    case 'run':
      if (load === undefined) throw new TypeError('nothing is connected yet');
      return { kind: 'ran', result: await load.run(request.request) };
    case 'close':
      await client?.[Symbol.asyncDispose]();
      return { kind: 'closed' };
    default:
      return request satisfies never;
  }
}

function send(reply: PeerReply): void {
  process.send?.(reply);
}
