import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { hostAndPort } from './client.ts';

/** An answer of the server: the words of its line, and its body. */
export interface Reply {
  readonly words: readonly string[];
  readonly body: Buffer | undefined;
}

const CRLF = Buffer.from('\r\n');
/** The only answer here with a body. Its last word is the length of the body. */
const WITH_BODY = 'RESERVED';

/** Splits the bytes of a connection into replies, for any chunks. */
export class ReplyReader {
  readonly #onReply: (reply: Reply) => void;
  #unread: Buffer = Buffer.alloc(0);
  /** The line whose body has not arrived completely. */
  #line: readonly string[] | undefined;

  constructor(onReply: (reply: Reply) => void) {
    this.#onReply = onReply;
  }

  read(bytes: Buffer): void {
    this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
    let at = 0;
    for (;;) {
      const end = this.#line === undefined ? this.#readLine(at) : this.#readBody(at, this.#line);
      if (end === undefined) break;
      at = end;
    }
    this.#unread = this.#unread.subarray(at);
  }

  /** Reads the line at an offset. Returns its end; undefined: it has not arrived completely. */
  #readLine(at: number): number | undefined {
    const end = this.#unread.indexOf(CRLF, at);
    if (end < 0) return undefined;
    const words = this.#unread.toString('latin1', at, end).split(' ');
    if (words[0] === WITH_BODY) this.#line = words;
    else this.#onReply({ words, body: undefined });
    return end + CRLF.length;
  }

  #readBody(at: number, words: readonly string[]): number | undefined {
    const end = at + Number(words.at(-1));
    if (this.#unread.length < end + CRLF.length) return undefined;
    this.#line = undefined;
    this.#onReply({ words, body: this.#unread.subarray(at, end) });
    return end + CRLF.length;
  }
}

/** A connection to beanstalkd that pipelines commands. */
export class BeanstalkdConnection {
  readonly #socket: Socket;
  readonly #waiting: { resolve(reply: Reply): void; reject(error: Error): void }[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    const reader = new ReplyReader((reply) => this.#waiting.shift()?.resolve(reply));
    socket.on('data', (bytes) => reader.read(bytes));
    socket.on('error', () => {}); // `close` follows
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the connection to beanstalkd is closed'));
    });
  }

  static async open(endpoint: string): Promise<BeanstalkdConnection> {
    const socket = connect({ ...hostAndPort(endpoint), noDelay: true });
    await once(socket, 'connect');
    return new BeanstalkdConnection(socket);
  }

  /** Sends commands together. Resolves with their answers in order. */
  ask(commands: readonly Buffer[]): Promise<Reply[]> {
    const replies = commands.map(
      () => new Promise<Reply>((resolve, reject) => void this.#waiting.push({ resolve, reject })),
    );
    this.#socket.write(Buffer.concat(commands));
    return Promise.all(replies);
  }

  close(): void {
    this.#socket.destroy();
  }
}
