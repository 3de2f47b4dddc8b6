import { Refusal } from '@taskmaster/engine/domain';
import { type GroupRight, Memo, type Right } from '@taskmaster/proto';
import { type AccessTable, ANONYMOUS } from './access-table.ts';
import { type CallerAccess, CLUSTER_ITSELF, clusterAccess } from './caller-access.ts';
import { type Credential, type CredentialKind, isJwt } from './credential.ts';
import { type JwtRules, verifyJwt } from './jwt.ts';
import type { JwtKeys } from './jwt-keys.ts';
import type { Principal } from './principal.ts';
import { PrincipalUsage } from './principal-usage.ts';

/** The rules in force. They are replaced as a whole. */
export interface AccessState {
  readonly table: AccessTable;
  /** Undefined: JWTs are not accepted. */
  readonly jwt?: { readonly keys: JwtKeys; readonly rules: JwtRules } | undefined;
}

/** Bearers that are remembered, so that each token is hashed, and each JWT is verified, once. */
const MOST_BEARERS = 4_096;

/** Tells who callers are and what they may do. */
export class Access {
  #state: AccessState;
  /** Counts the changes of the rules. */
  #version = 0;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  readonly #bearers = new Memo<string, CallerAccess>(MOST_BEARERS);
  /** What the principals use of their quotas. */
  readonly usages: Usages;
  /** True while changed files cannot be used, so that these rules are older than the files. */
  reloadFailed = false;

  /** `now`: the system clock, in ms since 1970. `elapsed`: in ms, of a clock that does not go back. */
  constructor(state: AccessState, now: () => number = Date.now, elapsed: () => number = () => performance.now()) {
    this.#state = state;
    this.#now = now;
    this.usages = new Usages(elapsed);
    this.usages.follow(state.table);
  }

  get table(): AccessTable {
    return this.#state.table;
  }

  /** Replaces the rules. Callers that are connected have the new rights from now on. */
  replace(state: AccessState): void {
    this.#state = state;
    this.#version++;
    this.reloadFailed = false;
    this.usages.follow(state.table);
    this.#bearers.clear();
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
        return this.#caller('none', () => this.table.named(ANONYMOUS), 'the call has no credential');
      case 'malformed':
        return this.#caller('none', () => undefined, 'the header "authorization" is not "Bearer" and a token');
      case 'certificate':
        return this.#caller(
          'certificate',
          () => this.table.ofCertificate(credential.names),
          `no principal has a certificate of the name ${credential.names.slice(0, 4).join(', ')}`,
        );
      case 'bearer':
        return this.#bearers.get(credential.token) ?? this.#bearer(credential.token);
    }
  }

  /** The caller that a node or a proxy with a key of the cluster has identified. Empty: it had no credential. */
  identified(principal: string): CallerAccess {
    if (principal === CLUSTER_ITSELF) return clusterAccess;
    return this.#caller(
      'none',
      () => this.table.named(principal === '' ? ANONYMOUS : principal),
      principal === '' ? 'the call has no credential' : `no principal has the name ${principal}`,
    );
  }

  #bearer(token: string): CallerAccess | Promise<CallerAccess> {
    if (isJwt(token)) return this.#verify(token);
    const caller = this.#caller('token', () => this.table.ofToken(token), 'the token is not valid');
    if (this.table.ofToken(token) !== undefined) this.#bearers.remember(token, caller);
    return caller;
  }

  async #verify(token: string): Promise<CallerAccess> {
    const { jwt } = this.#state;
    if (jwt === undefined)
      return this.#caller('jwt', () => undefined, 'the server accepts no JWT: it has no key for them');
    try {
      const { subject, expiresAt } = await verifyJwt(token, jwt.keys, jwt.rules, this.#now());
      // After a change of the keys the JWT must be verified again, and only a new call brings it.
      const find = () => (this.#state.jwt?.keys.text === jwt.keys.text ? this.table.ofSubject(subject) : undefined);
      const problem = `the JWT of ${subject} has expired, or no principal has this subject`;
      const caller = this.#caller('jwt', find, problem, expiresAt);
      if (this.#state.jwt === jwt) this.#bearers.remember(token, caller);
      return caller;
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      return this.#caller('jwt', () => undefined, `the JWT is not valid: ${problem}`);
    }
  }

  #caller(
    credential: CredentialKind,
    find: () => Principal | undefined,
    problem: string,
    expiresAt = Number.POSITIVE_INFINITY,
  ): CallerAccess {
    return new TableAccess(
      credential,
      { find, version: () => this.#version, now: this.#now, usageOf: (principal) => this.usages.of(principal) },
      problem,
      expiresAt,
    );
  }
}

interface Lookup {
  readonly find: () => Principal | undefined;
  readonly version: () => number;
  readonly usageOf: (principal: string) => PrincipalUsage | undefined;
  readonly now: () => number;
}

/** A caller whose rights are those of the current rules. It is looked up again after a change of the rules. */
class TableAccess implements CallerAccess {
  readonly isUnlimited = false;
  readonly #lookup: Lookup;
  readonly credential: CredentialKind;
  readonly expiresAt: number;
  readonly #problem: string;
  #found: Principal | undefined;
  #usage: PrincipalUsage | undefined;
  #foundIn = -1;

  constructor(credential: CredentialKind, lookup: Lookup, problem: string, expiresAt: number) {
    this.#lookup = lookup;
    this.#problem = problem;
    this.credential = credential;
    this.expiresAt = expiresAt;
  }

  get principal(): string {
    return this.#current()?.name ?? '';
  }

  get usage(): PrincipalUsage | undefined {
    this.#current();
    return this.#usage;
  }

  requireIdentity(): void {
    this.#known();
  }

  require(right: GroupRight, group: string): void {
    const principal = this.#known();
    if (!principal.has(right, group)) {
      const where = group === '' ? 'the default group' : `the group ${group}`;
      throw denied(principal, right, `on ${where}`, { group });
    }
  }

  requireCluster(right: Exclude<Right, GroupRight>): void {
    const principal = this.#known();
    if (!principal.has(right, undefined)) throw denied(principal, right, 'on the cluster', {});
  }

  allows(right: GroupRight, group: string): boolean {
    return this.#known().has(right, group);
  }

  #known(): Principal {
    const found = this.#current();
    if (found === undefined) throw new Refusal('UNAUTHENTICATED', this.#problem);
    return found;
  }

  #current(): Principal | undefined {
    const version = this.#lookup.version();
    if (version !== this.#foundIn) {
      this.#found = this.#lookup.find();
      this.#usage = this.#found && this.#lookup.usageOf(this.#found.name);
      this.#foundIn = version;
    }
    return this.expiresAt > this.#lookup.now() ? this.#found : undefined;
  }
}

function denied({ name }: Principal, right: Right, where: string, metadata: Readonly<Record<string, string>>): Refusal {
  return new Refusal('PERMISSION_DENIED', `${name} has no right to ${right} ${where}`, {
    metadata: { principal: name, right, ...metadata },
  });
}

/** What the principals with quotas use. */
class Usages {
  readonly #now: () => number;
  readonly #byName = new Map<string, PrincipalUsage>();
  #limited: ReadonlySet<string> = new Set();

  /** `now`: in ms, of any clock that does not go back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes the limits of these rules over. Principals without limits are not counted any more. */
  follow(table: AccessTable): void {
    this.#limited = new Set(table.limits.keys());
    for (const [name, limits] of table.limits) {
      const known = this.#byName.get(name);
      if (known === undefined) this.#byName.set(name, new PrincipalUsage(name, limits, this.#now));
      else known.limits = limits;
    }
  }

  /** Undefined: the principal has no quotas. */
  of(principal: string): PrincipalUsage | undefined {
    return this.#limited.has(principal) ? this.#byName.get(principal) : undefined;
  }

  /** All principals with quotas. */
  *limited(): Generator<PrincipalUsage> {
    for (const usage of this.#byName.values()) if (this.#limited.has(usage.principal)) yield usage;
  }

  /** Call this when a connection is closed. */
  disconnected(connection: string): void {
    for (const usage of this.#byName.values()) usage.disconnected(connection);
  }
}
