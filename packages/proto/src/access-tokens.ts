import { createHash, randomBytes } from 'node:crypto';

const TOKEN_BYTES = 32;
const PREFIX = 'sha256:';

/** The form of a hash in the access file. */
export const TOKEN_HASH = /^sha256:[0-9a-f]{64}$/;

/** A new random token. It starts with `tm_`, so that scanners find it in files that should not contain it. */
export function newToken(): string {
  return `tm_${randomBytes(TOKEN_BYTES).toString('base64url')}`;
}

/**
 * The hash of a token, as the access file has it. A lookup by hash takes the same time for every wrong token as far as a caller
 * can control it. Tokens are random and long, so a slow hash would not make them safer.
 */
export function hashOfToken(token: string): string {
  return PREFIX + createHash('sha256').update(token).digest('hex');
}
