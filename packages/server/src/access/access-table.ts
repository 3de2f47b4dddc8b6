import { type Grant, Principal } from './principal.ts';
import { hashOfToken } from './tokens.ts';

/** Callers without a credential have the rights of the principal with this name, if there is one. */
export const ANONYMOUS = 'anonymous';

interface PrincipalRules {
  readonly name: string;
  readonly tokens?: readonly string[];
  readonly certificates?: readonly string[];
  readonly jwtSubjects?: readonly string[];
  readonly rights?: readonly Grant[];
}

export interface AccessRules {
  readonly principals: readonly PrincipalRules[];
}

/** Finds principals by their credentials. Everything that has no rule is denied. */
export class AccessTable {
  readonly #principals = new Map<string, Principal>();
  readonly #byToken = new Map<string, Principal>();
  readonly #byCertificate = new Map<string, Principal>();
  readonly #bySubject = new Map<string, Principal>();

  /** Throws a RangeError if two principals share a name or a credential. */
  constructor({ principals }: AccessRules) {
    for (const { name, tokens = [], certificates = [], jwtSubjects = [], rights = [] } of principals) {
      const principal = new Principal(name, rights);
      addOnce(this.#principals, name, principal, 'name');
      for (const hash of tokens) addOnce(this.#byToken, hash, principal, 'token');
      for (const certificate of certificates) addOnce(this.#byCertificate, certificate, principal, 'certificate');
      for (const subject of jwtSubjects) addOnce(this.#bySubject, subject, principal, 'jwtSubject');
    }
  }

  /** Number of principals. */
  get size(): number {
    return this.#principals.size;
  }

  named(name: string): Principal | undefined {
    return this.#principals.get(name);
  }

  ofToken(token: string): Principal | undefined {
    return this.#byToken.get(hashOfToken(token));
  }

  /** The principal of the first name that has one. */
  ofCertificate(names: readonly string[]): Principal | undefined {
    for (const name of names) {
      const found = this.#byCertificate.get(name);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  ofSubject(subject: string): Principal | undefined {
    return this.#bySubject.get(subject);
  }
}

function addOnce(to: Map<string, Principal>, key: string, principal: Principal, what: string): void {
  const other = to.get(key);
  if (other !== undefined) throw new RangeError(`${other.name} and ${principal.name} have the same ${what}: ${key}`);
  to.set(key, principal);
}
