import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { Refusal } from '../domain/errors.ts';

/** Carries `nonce.seal`, both in base64url. */
const SEAL_HEADER = 'taskmaster-seal';
const NONCE_BYTES = 12;

/**
 * Proves that what nodes ask each other comes from a holder of the cluster's key, and unaltered. It does not hide what is
 * said, nor keep anybody who can listen from saying it again. The first key seals, all are accepted; without keys
 * everybody is.
 */
export class PeerSeal {
  readonly #keys: readonly string[];

  constructor(keys: readonly string[]) {
    this.#keys = keys;
  }

  seal(method: string, request: Buffer, metadata: Metadata): void {
    const [key] = this.#keys;
    if (key === undefined) return;
    const nonce = randomBytes(NONCE_BYTES).toString('base64url');
    metadata.set(SEAL_HEADER, `${nonce}.${sealOf(key, nonce, method, request).toString('base64url')}`);
  }

  /** Throws a `Refusal` with WRONG_KEY. */
  check(method: string, request: Buffer, metadata: Metadata): void {
    if (this.#keys.length === 0) return;
    const [header = ''] = metadata.get(SEAL_HEADER);
    const [nonce = '', given = ''] = header.toString().split('.');
    const seal = Buffer.from(given, 'base64url');
    for (const key of this.#keys) {
      const wanted = sealOf(key, nonce, method, request);
      if (seal.length === wanted.length && timingSafeEqual(seal, wanted)) return;
    }
    throw new Refusal('WRONG_KEY', 'the call is not sealed with a key of this cluster');
  }
}

const sealOf = (key: string, nonce: string, method: string, request: Buffer): Buffer =>
  createHmac('sha256', key).update(`peer ${method} ${nonce} `).update(request).digest();
