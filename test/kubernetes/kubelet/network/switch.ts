import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, startProcess } from '../../../support/processes/child-process.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../../support/temporary-directory.ts';

/** The addresses that the switch listens on, `host:port`, and where it forwards connections to. */
export type SwitchTable = readonly { readonly listen: string; readonly targets: readonly string[] }[];

const DIAL_MS = 5_000;
const PROGRAM = join(dirname(fileURLToPath(import.meta.url)), 'switch-program.ts');

/** The process in the middle of the pods' network, and the way into this network and out of it. */
export class Switch implements AsyncDisposable {
  readonly #opened: AsyncDisposableStack;
  readonly #directory: TemporaryDirectory;
  readonly #running: Running;
  readonly #applied: AsyncGenerator<string, void>;
  #table = '';
  #applying: Promise<unknown> = Promise.resolve();

  /** `behind`: the words that run a command in the network. */
  static async start(behind: readonly string[]): Promise<Switch> {
    await using opened = new AsyncDisposableStack();
    const directory = opened.use(await temporaryDirectory());
    const [command = '', ...args] = [...behind, process.execPath, '--conditions=source', PROGRAM, directory.path];
    const running = opened.use(await startProcess(command, args));
    const lines = running.lines();
    if ((await lines.next()).done) throw new Error(`the switch ended: ${(await running.ended).stderr}`);
    return new Switch(opened.move(), directory, running, lines);
  }

  private constructor(
    opened: AsyncDisposableStack,
    directory: TemporaryDirectory,
    running: Running,
    applied: AsyncGenerator<string, void>,
  ) {
    this.#opened = opened;
    this.#directory = directory;
    this.#running = running;
    this.#applied = applied;
  }

  /** Replaces the table. Resolves when it is in use. */
  async apply(table: SwitchTable): Promise<void> {
    const line = JSON.stringify(table);
    if (line === this.#table) return;
    this.#table = line;
    const applying = this.#applying.then(async () => {
      this.#running.process.stdin?.write(`${line}\n`);
      if ((await this.#applied.next()).done) throw new Error(`the switch ended: ${this.#running.stderr}`);
    });
    this.#applying = applying.catch(() => {});
    await applying;
  }

  /** Connects to `host:port` in the network. The socket is paused. Rejects if the connection is refused or takes too long. */
  async dial(target: string, signal: AbortSignal): Promise<Socket> {
    const socket = connect(join(this.#directory.path, 'dial'));
    const abort = (): void => {
      socket.destroy();
    };
    signal.addEventListener('abort', abort, { once: true });
    try {
      await once(socket, 'connect', { signal });
      socket.write(`${target}\n`);
      const answer = Promise.withResolvers<string>();
      socket.once('close', () => answer.resolve(''));
      socket.once('error', () => answer.resolve(''));
      socket.once('data', (data: Buffer) => answer.resolve(data.toString('latin1')));
      if ((await answer.promise) !== 'ok\n') throw new Error(`no connection to ${target}`);
      socket.pause();
      return socket;
    } catch (error) {
      socket.destroy();
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /**
   * Opens a port of loopback outside to the network. Returns a path for a table: what the switch forwards there arrives at the
   * port.
   */
  async wayOutTo(port: number): Promise<string> {
    const path = join(this.#directory.path, `out-${port}`);
    const server = this.#forward(async () => connect(port, '127.0.0.1'));
    server.listen(path);
    await once(server, 'listening');
    return path;
  }

  /** Opens an address in the network to processes outside. Returns an address of loopback. */
  async wayInTo(target: string): Promise<string> {
    const server = this.#forward(() => this.dial(target, AbortSignal.timeout(DIAL_MS)));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return `127.0.0.1:${port}`;
  }

  #forward(open: () => Promise<Socket>): Server {
    const sockets = new Set<Socket>();
    const server = createServer({ pauseOnConnect: true }, async (inner) => {
      sockets.add(inner);
      inner.on('error', () => inner.destroy());
      const outer = await open().catch(() => undefined);
      if (outer === undefined) {
        inner.destroy();
        return;
      }
      sockets.add(outer);
      for (const [socket, other] of [
        [inner, outer],
        [outer, inner],
      ] as const) {
        socket.on('error', () => other.destroy());
        socket.on('close', () => {
          sockets.delete(socket);
          other.destroy();
        });
      }
      if (inner.destroyed) outer.destroy();
      inner.pipe(outer).pipe(inner);
    });
    this.#opened.defer(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}
