import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { DatagramRefusal } from '../../ports/membership.ts';
import { ReplayWindows } from './replay-windows.ts';

// A sealed datagram: mark 2, format 1, cluster 4, sender 16, start 6, thread 2, sequence 6, salt 8, body, code 16.
// Without a key of the cluster (format 1) there is no salt, and the code only keeps clusters apart that meet by mistake. With a
// key (format 2) the body is encrypted with AES-256-GCM, and the code authenticates everything before it.
const MARK = 0x544d;
const PLAIN = 1;
const ENCRYPTED = 2;
const SALT_AT = 37;
const SALT = 8;
const CODE = 16;

/** Longer datagrams are rejected. Members send at most 1,200 bytes and the seal, so that no datagram is fragmented. */
export const MAX_DATAGRAM_BYTES = 1400;

export interface SealOptions {
  readonly clusterId: string;
  /** The first key seals, all keys open; see `GossipOptions`. */
  readonly keys: readonly string[];
  readonly nodeId: string;
  /** Number of the start of the member; see `MemberMeta`. */
  readonly incarnation: number;
  /** Number of the start of gossip within that start. */
  readonly threadStart: number;
}

export type Opened = { readonly body: Buffer } | { readonly refused: DatagramRefusal };

/**
 * Seals the datagrams of a member and opens those of its peers. A datagram does not open twice: each sender numbers its starts
 * and its datagrams. So clocks need not agree.
 */
export class Seal {
  readonly #cluster: Buffer;
  readonly #keys: readonly Buffer[];
  readonly #format: typeof PLAIN | typeof ENCRYPTED;
  readonly #header: Buffer;
  readonly #windows = new ReplayWindows();
  #sequence = 0;

  constructor({ clusterId, keys, nodeId, incarnation, threadStart }: SealOptions) {
    this.#cluster = sha256(`taskmaster cluster ${clusterId}`).subarray(0, 4);
    this.#format = keys.length > 0 ? ENCRYPTED : PLAIN;
    this.#keys = (keys.length > 0 ? keys : ['']).map((key) =>
      createHmac('sha256', key).update(`taskmaster gossip ${this.#format} ${clusterId}`).digest(),
    );
    this.#header = Buffer.alloc(this.#format === ENCRYPTED ? SALT_AT + SALT : SALT_AT);
    this.#header.writeUInt16BE(MARK, 0);
    this.#header.writeUInt8(this.#format, 2);
    this.#cluster.copy(this.#header, 3);
    sha256(nodeId).copy(this.#header, 7, 0, 16);
    this.#header.writeUIntBE(incarnation, 23, 6);
    this.#header.writeUInt16BE(threadStart % 0x10000, 29);
    if (this.#format === ENCRYPTED) randomBytes(SALT).copy(this.#header, SALT_AT);
  }

  seal(body: Buffer): Buffer {
    const [key] = this.#keys;
    if (!key) throw new Error('no key');
    this.#header.writeUIntBE(++this.#sequence, 31, 6);
    if (this.#format === ENCRYPTED) {
      const cipher = createCipheriv(CIPHER, keyOf(key, this.#header), nonceOf(this.#header)).setAAD(this.#header);
      return Buffer.concat([this.#header, cipher.update(body), cipher.final(), cipher.getAuthTag()]);
    }
    const signed = Buffer.concat([this.#header, body]);
    return Buffer.concat([signed, codeOf(key, signed)]);
  }

  open(datagram: Buffer): Opened {
    const { length: headerBytes } = this.#header;
    if (datagram.length > MAX_DATAGRAM_BYTES) return { refused: 'oversized' };
    if (datagram.length <= SALT_AT + CODE || datagram.readUInt16BE(0) !== MARK) return { refused: 'malformed' };
    if (datagram[2] !== PLAIN && datagram[2] !== ENCRYPTED) return { refused: 'malformed' };
    if (!this.#cluster.equals(datagram.subarray(3, 7))) return { refused: 'otherCluster' };
    // Only one of the two members has a key.
    if (datagram[2] !== this.#format) return { refused: 'unauthenticated' };
    if (datagram.length <= headerBytes + CODE) return { refused: 'malformed' };
    const body = this.#authenticated(datagram);
    if (body === undefined) return { refused: 'unauthenticated' };
    const sender = datagram.toString('latin1', 7, 23);
    const start = datagram.readUIntBE(23, 6);
    const thread = datagram.readUInt16BE(29);
    if (!this.#windows.admit(sender, start, thread, datagram.readUIntBE(31, 6))) return { refused: 'replayed' };
    return { body };
  }

  /** The body in the clear. Undefined if no key opens it. */
  #authenticated(datagram: Buffer): Buffer | undefined {
    const header = datagram.subarray(0, this.#header.length);
    const signed = datagram.subarray(0, -CODE);
    const body = signed.subarray(header.length);
    const code = datagram.subarray(-CODE);
    if (this.#format === PLAIN) {
      return this.#keys.some((key) => timingSafeEqual(codeOf(key, signed), code)) ? body : undefined;
    }
    for (const key of this.#keys) {
      const decipher = createDecipheriv(CIPHER, keyOf(key, header), nonceOf(header)).setAAD(header).setAuthTag(code);
      const opened = decipher.update(body);
      try {
        decipher.final();
        return opened;
      } catch {
        // It is sealed with another key.
      }
    }
    return undefined;
  }
}

const CIPHER = 'aes-256-gcm';
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
const codeOf = (key: Buffer, signed: Buffer): Buffer =>
  createHmac('sha256', key).update(signed).digest().subarray(0, CODE);

/** A key of its own for each start of a sender, so that a number of a datagram is used once with a key. */
const keyOf = (key: Buffer, header: Buffer): Buffer =>
  createHmac('sha256', key).update(header.subarray(7, 31)).update(header.subarray(SALT_AT)).digest();

/** The number of the datagram, in 12 bytes. */
function nonceOf(header: Buffer): Buffer {
  const nonce = Buffer.alloc(12);
  header.copy(nonce, 6, 31, 37);
  return nonce;
}
