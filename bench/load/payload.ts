import { randomBytes } from 'node:crypto';

/** Payload of every task, in bytes. */
export const PAYLOAD_BYTES = 1_000;

const payloads = Array.from({ length: 64 }, () => randomBytes(PAYLOAD_BYTES));
let next = 0;

/** A payload that no compression makes smaller. */
export function payload(): Buffer {
  return payloads[next++ % payloads.length] ?? Buffer.alloc(PAYLOAD_BYTES);
}
