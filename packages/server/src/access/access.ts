import { Refusal } from '../domain/refusal.ts';
import type { AccessTable } from './access-table.ts';
import { ANONYMOUS } from './access-table.ts';
import type { CallerAccess } from './caller-access.ts';
import { type Credential, isJwt } from './credential.ts';
import { type JwtIdentity, type JwtKeys, type JwtRules, verifyJwt } from './jwt.ts';
import type { Principal } from './principal.ts';
import type { GroupRight, Right } from './rights.ts';

/** The rules in force. They are replaced as a whole. */
export interface AccessState {
  readonly table: AccessTable;
  /** Undefined: JWTs are not accepted. */
  readonly jwt?: { readonly keys: JwtKeys; readonly rules: JwtRules } | undefined;
}

/** Verified JWTs that are remembered, so that each is verified once. */
const MOST_JWTS = 4_096;

/** Tells who callers are and what they may do. */
export class Access {
  #state: AccessState;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  readonly #jwts = new Map<string, JwtIdentity>();

  /** `now`: the system clock, in ms since 1970. */
  constructor(state: AccessState, now: () => number = Date.now) {
    this.#state = state;
    this.#now = now;
  }

  get table(): AccessTable {
    return this.#state.table;
  }

  /** Replaces the rules. Callers that are connected have the new rights from now on. */
  replace(state: AccessState): void {
    this.#state = state;
    this.#jwts.clear();
    for (const listener of this.#listeners) listener();
  }

  /** Calls back after each change of the rules. Returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The caller with this credential. A promise only for a JWT that is seen for the first time. Never rejects. */
  identify(credential: Credential): CallerAccess | Promise<CallerAccess> {
    switch (credential.kind) {
      case 'none':
        return this.#caller(() => this.table.named(ANONYMOUS), 'the call has no credential');
      case 'malformed':
        return this.#caller(() => undefined, 'the header "authorization" is not "Bearer" and a token');
      case 'certificate':
        return this.#caller(
          () => this.table.ofCertificate(credential.names),
          `no principal has a certificate of the name ${credential.names.slice(0, 4).join(', ')}`,
        );
      case 'bearer':
        return this.#bearer(credential.token);
    }
  }

  /** The caller that a proxy or another node has identified. */
  identified(principal: string): CallerAccess {
    if (principal === '') return this.identify({ kind: 'none' }) as CallerAccess;
    return this.#caller(() => this.table.named(principal), `no principal has the name ${principal}`);
  }

  #bearer(token: string): CallerAccess | Promise<CallerAccess> {
    if (!isJwt(token)) return this.#caller(() => this.table.ofToken(token), 'the token is not valid');
    const known = this.#jwts.get(token);
    if (known !== undefined) return this.#ofJwt(known);
    return this.#verify(token);
  }

  async #verify(token: string): Promise<CallerAccess> {
    const { jwt } = this.#state;
    if (jwt === undefined) return this.#caller(() => undefined, 'the server accepts no JWT: it has no key for them');
    try {
      const identity = await verifyJwt(token, jwt.keys, jwt.rules, this.#now());
      if (this.#state.jwt === jwt) {
        if (this.#jwts.size >= MOST_JWTS) this.#jwts.clear();
        this.#jwts.set(token, identity);
      }
      return this.#ofJwt(identity, jwt);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      return this.#caller(() => undefined, `the JWT is not valid: ${problem}`);
    }
  }

  #ofJwt({ subject, expiresAt }: JwtIdentity, verifiedWith = this.#state.jwt): CallerAccess {
    const find = (): Principal | undefined => {
      // A JWT that another key has signed must be verified again, so its caller must call again.
      if (this.#now() >= expiresAt || this.#state.jwt?.keys !== verifiedWith?.keys) return undefined;
      return this.table.ofSubject(subject);
    };
    return this.#caller(find, `the JWT of ${subject} has expired, or no principal has this subject`);
  }

  #caller(find: () => Principal | undefined, problem: string): CallerAccess {
    return new TableAccess(find, problem);
  }
}

/** A caller whose rights are looked up at each question. */
class TableAccess implements CallerAccess {
  readonly isUnlimited = false;
  readonly #find: () => Principal | undefined;
  readonly #problem: string;

  constructor(find: () => Principal | undefined, problem: string) {
    this.#find = find;
    this.#problem = problem;
  }

  get principal(): string {
    return this.#find()?.name ?? '';
  }

  requireIdentity(): void {
    this.#principal();
  }

  require(right: GroupRight, group: string): void {
    const principal = this.#principal();
    if (!principal.has(right, group)) {
      const where = group === '' ? 'the default group' : `the group ${group}`;
      throw denied(principal, right, `on ${where}`, { group });
    }
  }

  requireCluster(right: Exclude<Right, GroupRight>): void {
    const principal = this.#principal();
    if (!principal.has(right, undefined)) throw denied(principal, right, 'on the cluster', {});
  }

  allows(right: GroupRight, group: string): boolean {
    return this.#principal().has(right, group);
  }

  #principal(): Principal {
    const found = this.#find();
    if (found === undefined) throw new Refusal('UNAUTHENTICATED', this.#problem);
    return found;
  }
}

function denied({ name }: Principal, right: Right, where: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('PERMISSION_DENIED', `${name} has no right to ${right} ${where}`, {
    metadata: { principal: name, right, ...metadata },
  });
}
