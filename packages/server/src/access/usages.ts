import type { AccessTable } from './access-table.ts';
import { PrincipalUsage } from './principal-usage.ts';

/** What the principals with quotas use. */
export class Usages {
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
