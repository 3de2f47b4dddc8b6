import { randomBytes } from 'node:crypto';
import { PAYLOAD_BYTES } from '../../load/payload.ts';

const texts = Array.from({ length: 64 }, () =>
  randomBytes(PAYLOAD_BYTES).toString('base64url').slice(0, PAYLOAD_BYTES),
);
let next = 0;

/** A payload for systems that store text: as many characters as other payloads have bytes, with six random bits each. */
export function payloadText(): string {
  return texts[next++ % texts.length] ?? '';
}
