import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP port of this machine that forwards to a Unix socket. */
export interface Relay extends Disposable {
  /** `127.0.0.1:port`. */
  readonly endpoint: string;
}

/** Forwards a new TCP port to a Unix socket, for clients that support only TCP. */
export async function relayTo(socketPath: string): Promise<Relay> {
  const open = new Set<Socket>();
  const server = createServer((inner) => {
    const outer = connect(socketPath);
    for (const [socket, other] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      open.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
    }
    inner.pipe(outer).pipe(inner);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `127.0.0.1:${port}`,
    [Symbol.dispose]() {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}
