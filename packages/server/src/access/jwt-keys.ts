import { createPublicKey, type KeyObject } from 'node:crypto';
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';

/** A public key (PEM) or a key set (JWKS) that signatures are checked with. `text`: the file; equal for equal keys. */
export type JwtKeys = { readonly text: string } & (
  | { readonly kind: 'key'; readonly key: KeyObject }
  | { readonly kind: 'set'; readonly get: JWTVerifyGetKey }
);

/** Reads a public key or certificate in PEM. Throws if it is not one. */
export function readPublicKey(pem: string): JwtKeys {
  if (/PRIVATE KEY/.test(pem)) throw new TypeError('contains a private key: give the public key');
  return { text: pem, kind: 'key', key: createPublicKey(pem) };
}

/** Reads a JSON Web Key Set. Throws if it is not one. */
export function readKeySet(json: string): JwtKeys {
  const set = JSON.parse(json) as JSONWebKeySet;
  if (set.keys.some((key) => key.kty === 'oct' || key.d !== undefined)) {
    throw new TypeError('contains a secret key: give public keys only');
  }
  return { text: json, kind: 'set', get: createLocalJWKSet(set) };
}
