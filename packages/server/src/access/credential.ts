/** What a caller was known by. `none` also if a node or proxy names it. */
export type CredentialKind = 'none' | 'token' | 'jwt' | 'certificate';

/** What a caller shows to prove who it is. */
export type Credential =
  | { readonly kind: 'none' }
  /** A token or a JWT. */
  | { readonly kind: 'bearer'; readonly token: string }
  /** Names in a client certificate that a CA of this server has signed: the common name, DNS names and URIs of the subject. */
  | { readonly kind: 'certificate'; readonly names: readonly string[] }
  /** The `authorization` header has another form. */
  | { readonly kind: 'malformed' };

const NONE: Credential = { kind: 'none' };
const MALFORMED: Credential = { kind: 'malformed' };
const BEARER = /^bearer +([\w\-.~+/]+=*) *$/i;
/** Longer headers are refused before they are read. */
const MOST_CHARACTERS = 8_192;

/**
 * The credential of a caller. A header counts before a certificate, because a proxy of the network may use one certificate for
 * all its callers.
 */
export function credentialOf(authorization: string | undefined, certificateNames: readonly string[]): Credential {
  if (authorization !== undefined) {
    const token = authorization.length <= MOST_CHARACTERS ? BEARER.exec(authorization)?.[1] : undefined;
    return token === undefined ? MALFORMED : { kind: 'bearer', token };
  }
  return certificateNames.length > 0 ? { kind: 'certificate', names: certificateNames } : NONE;
}

/** Whether a token has the form of a JWT: three parts. Tokens of `newToken` have one. */
export function isJwt(token: string): boolean {
  return token.split('.').length === 3;
}
