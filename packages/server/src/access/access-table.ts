import { type GroupLimits, namePattern } from '@taskmaster/engine/domain';
import { hashOfToken, Memo } from '@taskmaster/proto';
import { type Grant, Principal } from './principal.ts';
import type { PrincipalLimits } from './principal-usage.ts';

/** Callers without a credential have the rights of the principal with this name, if there is one. */
export const ANONYMOUS = 'anonymous';

/** Quotas of more groups are looked up again. */
const MOST_KNOWN_GROUPS = 4_096;

interface PrincipalRules {
  readonly name: string;
  readonly tokens?: readonly string[];
  readonly certificates?: readonly string[];
  readonly jwtSubjects?: readonly string[];
  readonly rights?: readonly Grant[];
  readonly limits?: PrincipalLimits | undefined;
}

/** The quotas of each group that matches one of the patterns. */
interface GroupRules {
  readonly groups: readonly string[];
  readonly limits: GroupLimits;
}

export interface AccessRules {
  readonly principals: readonly PrincipalRules[];
  /** The first entry that matches a group counts. */
  readonly groups?: readonly GroupRules[];
}

/** Finds principals by their credentials. Everything that has no rule is denied. */
export class AccessTable {
  readonly #principals = new Map<string, Principal>();
  readonly #byToken = new Map<string, Principal>();
  readonly #byCertificate = new Map<string, Principal>();
  readonly #bySubject = new Map<string, Principal>();
  /** Quotas of principals, by name. */
  readonly limits = new Map<string, PrincipalLimits>();
  readonly #groups: readonly { readonly matches: (group: string) => boolean; readonly limits: GroupLimits }[];
  /** The quotas that were asked for. */
  readonly #knownGroups = new Memo<string, GroupLimits | null>(MOST_KNOWN_GROUPS);

  /** Throws a RangeError if two principals share a name or a credential. */
  constructor({ principals, groups = [] }: AccessRules) {
    this.#groups = groups.flatMap(({ groups: patterns, limits }) =>
      patterns.map((pattern) => ({ matches: namePattern(pattern), limits })),
    );
    for (const { name, tokens = [], certificates = [], jwtSubjects = [], rights = [], limits } of principals) {
      const principal = new Principal(name, rights);
      addOnce(this.#principals, name, principal, 'name');
      if (limits !== undefined) this.limits.set(name, limits);
      for (const hash of tokens) addOnce(this.#byToken, hash, principal, 'token');
      for (const certificate of certificates) addOnce(this.#byCertificate, certificate, principal, 'certificate');
      for (const subject of jwtSubjects) addOnce(this.#bySubject, subject, principal, 'jwtSubject');
    }
  }

  /** Number of principals. */
  get size(): number {
    return this.#principals.size;
  }

  /** The quotas of a group. Undefined: none. */
  limitsOfGroup(group: string): GroupLimits | undefined {
    if (this.#groups.length === 0) return undefined;
    const known = this.#knownGroups.get(group);
    if (known !== undefined) return known ?? undefined;
    const found = this.#groups.find(({ matches }) => matches(group))?.limits;
    return this.#knownGroups.remember(group, found ?? null) ?? undefined;
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
