import { createPublicKey, type KeyObject } from 'node:crypto';
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose';

/** Only algorithms with a public key: with a shared secret, every verifier could also issue tokens. */
const ALGORITHMS = ['EdDSA', 'ES256', 'ES384', 'ES512', 'PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'];
/** Clocks of issuer and node may differ by this, in seconds. */
const TOLERANCE_S = 5;
/** The last instant that a Date can have, in ms since 1970. An issuer may give a JWT any later expiry. */
const LATEST_MS = 8.64e15;

export interface JwtRules {
  readonly issuer: string;
  readonly audience: string;
}

/** What a valid JWT says. */
export interface JwtIdentity {
  readonly subject: string;
  /** In ms since 1970, a whole number that a Date can have. */
  readonly expiresAt: number;
}

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

/**
 * Checks signature, issuer, audience and times of a JWT. Rejects if it is not valid. A JWT needs a subject and an expiry.
 * `now`: in ms since 1970.
 */
export async function verifyJwt(token: string, keys: JwtKeys, rules: JwtRules, now: number): Promise<JwtIdentity> {
  const options = {
    algorithms: ALGORITHMS,
    issuer: rules.issuer,
    audience: rules.audience,
    clockTolerance: TOLERANCE_S,
    currentDate: new Date(now),
    requiredClaims: ['sub', 'exp'],
  };
  const { payload } =
    keys.kind === 'key' ? await jwtVerify(token, keys.key, options) : await jwtVerify(token, keys.get, options);
  const { sub: subject = '', exp = 0 } = payload;
  return { subject, expiresAt: Math.min(LATEST_MS, Math.floor((exp + TOLERANCE_S) * 1000)) };
}
