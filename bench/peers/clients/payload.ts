import { randomBytes } from 'node:crypto';
import { PAYLOAD_BYTES } from '../../load/payload.ts';

const texts = Array.from({ length: 64 }, () =>
  randomBytes(PAYLOAD_BYTES).toString('base64url').slice(0, PAYLOAD_BYTES),
);
let next = 0;

/** For systems whose payloads are text: as many characters as the others have bytes, six bits of randomness in each. */
export function payloadText(): string {
  return texts[next++ % texts.length] ?? '';
}
