import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A port of this machine behind which is a Unix socket. */
export interface Relay extends Disposable {
  /** `127.0.0.1:port`. */
  readonly endpoint: string;
}

/** Lets clients that know only ports reach a Unix socket. */
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
