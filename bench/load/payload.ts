import { randomBytes } from 'node:crypto';

/** Payload of every task, in bytes. */
export const PAYLOAD_BYTES = 1_000;

/** Number of different payloads of each size; large sizes have fewer. */
const MOST_PAYLOADS = 64;
const MOST_BYTES = 8 * 1024 * 1024;

class Payloads {
  readonly #all: readonly Buffer[];
  #next = 0;

  constructor(bytes: number) {
    const count = Math.max(1, Math.min(MOST_PAYLOADS, Math.floor(MOST_BYTES / bytes)));
    this.#all = Array.from({ length: count }, () => randomBytes(bytes));
  }

  next(): Buffer {
    return this.#all[this.#next++ % this.#all.length] ?? Buffer.alloc(0);
  }
}

const usual = new Payloads(PAYLOAD_BYTES);
const others = new Map<number, Payloads>();

/** A random payload, which cannot be compressed. */
export function payload(bytes: number = PAYLOAD_BYTES): Buffer {
  if (bytes === PAYLOAD_BYTES) return usual.next();
  let payloads = others.get(bytes);
  if (payloads === undefined) {
    payloads = new Payloads(bytes);
    others.set(bytes, payloads);
  }
  return payloads.next();
}
