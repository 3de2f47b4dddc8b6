import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { GrpcCounter, type Traffic } from './grpc-counter.ts';

const LOOPBACK = '127.0.0.1';

/** Forwards connections between clients and a server, and counts their messages. */
export class Relay implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly endpoint: string;
  #toServer = { messages: 0, bytes: 0 };
  #toClient = { messages: 0, bytes: 0 };

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.endpoint = `${LOOPBACK}:${port}`;
  }

  /** Starts a relay to `target` (`host:port`). */
  static async to(target: string): Promise<Relay> {
    const server = createServer({ allowHalfOpen: true }).listen(0, LOOPBACK);
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the relay has no port');
    const relay = new Relay(server, address.port);
    const at = target.lastIndexOf(':');
    server.on('connection', (client) => relay.#join(client, target.slice(0, at), Number(target.slice(at + 1))));
    return relay;
  }

  get toServer(): Traffic {
    return { ...this.#toServer };
  }

  get toClient(): Traffic {
    return { ...this.#toClient };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(client: Socket, host: string, port: number): void {
    const server = connect({ host, port, noDelay: true, allowHalfOpen: true });
    client.setNoDelay(true);
    this.#pass(client, server, true);
    this.#pass(server, client, false);
  }

  #pass(from: Socket, to: Socket, fromClient: boolean): void {
    this.#sockets.add(from);
    const counter = new GrpcCounter(fromClient, (bytes) => {
      const traffic = fromClient ? this.#toServer : this.#toClient;
      traffic.messages++;
      traffic.bytes += bytes;
    });
    from.on('data', (bytes: Buffer) => counter.read(bytes));
    from.pipe(to);
    from.on('error', () => {}); // `close` follows
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
