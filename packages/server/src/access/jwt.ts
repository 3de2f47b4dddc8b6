import type { JwtKeys } from './jwt-keys.ts';

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

/**
 * Checks signature, issuer, audience and times of a JWT. Rejects if it is not valid. A JWT needs a subject and an expiry.
 * `now`: in ms since 1970.
 */
export async function verifyJwt(token: string, keys: JwtKeys, rules: JwtRules, now: number): Promise<JwtIdentity> {
  // Loaded here, because an engine in a process of tests never checks a JWT.
  const { jwtVerify } = await import('jose');
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
