import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { DatagramRefusal } from '../../ports/membership.ts';
import { ReplayWindows } from './replay-windows.ts';

// A sealed datagram: mark 2, format 1, cluster 4, sender 16, start 6, thread 2, sequence 6, body, code 16.
// The code authenticates everything before it. Bodies are not secret: names, addresses, versions.
const MARK = 0x544d;
const FORMAT = 1;
const HEADER = 37;
const CODE = 16;

/** Size of a seal, in bytes. */
const SEAL_BYTES = HEADER + CODE;

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
  readonly #header: Buffer;
  readonly #windows = new ReplayWindows();
  #sequence = 0;

  constructor({ clusterId, keys, nodeId, incarnation, threadStart }: SealOptions) {
    this.#cluster = sha256(`taskmaster cluster ${clusterId}`).subarray(0, 4);
    // Without keys, the id of the cluster still keeps clusters apart that meet by mistake.
    this.#keys = (keys.length > 0 ? keys : ['']).map((key) =>
      createHmac('sha256', key).update(`taskmaster gossip 1 ${clusterId}`).digest(),
    );
    this.#header = Buffer.alloc(HEADER);
    this.#header.writeUInt16BE(MARK, 0);
    this.#header.writeUInt8(FORMAT, 2);
    this.#cluster.copy(this.#header, 3);
    sha256(nodeId).copy(this.#header, 7, 0, 16);
    this.#header.writeUIntBE(incarnation, 23, 6);
    this.#header.writeUInt16BE(threadStart % 0x10000, 29);
  }

  seal(body: Buffer): Buffer {
    const [key] = this.#keys;
    if (!key) throw new Error('no key');
    this.#header.writeUIntBE(++this.#sequence, 31, 6);
    const signed = Buffer.concat([this.#header, body]);
    return Buffer.concat([signed, codeOf(key, signed)]);
  }

  open(datagram: Buffer): Opened {
    if (datagram.length > MAX_DATAGRAM_BYTES) return { refused: 'oversized' };
    if (datagram.length <= SEAL_BYTES) return { refused: 'malformed' };
    if (datagram.readUInt16BE(0) !== MARK || datagram[2] !== FORMAT) return { refused: 'malformed' };
    if (!this.#cluster.equals(datagram.subarray(3, 7))) return { refused: 'otherCluster' };
    const signed = datagram.subarray(0, -CODE);
    const code = datagram.subarray(-CODE);
    if (!this.#keys.some((key) => timingSafeEqual(codeOf(key, signed), code))) return { refused: 'unauthenticated' };
    const sender = signed.toString('latin1', 7, 23);
    const start = signed.readUIntBE(23, 6);
    const thread = signed.readUInt16BE(29);
    if (!this.#windows.admit(sender, start, thread, signed.readUIntBE(31, 6))) return { refused: 'replayed' };
    return { body: signed.subarray(HEADER) };
  }
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();
const codeOf = (key: Buffer, signed: Buffer): Buffer =>
  createHmac('sha256', key).update(signed).digest().subarray(0, CODE);
