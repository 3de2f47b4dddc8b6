import { Family, familyNames } from '@taskmaster/engine/ports';
import { DatabaseError } from './database.ts';

/** Families whose rows are nearly always new when they are written. */
const MOSTLY_NEW: readonly Family[] = [Family.data, Family.ready, Family.log, Family.requests];
/** Commits that replace the rows of a family that exist, after one that found such a row. */
const REPLACING_COMMITS = 1_000;

/** The server found a row with the same key. */
const UNIQUE_VIOLATION = '23505';

/**
 * Which rows a commit can insert without asking whether they exist: a task costs PostgreSQL 11 µs so instead of 19 (bench row
 * `peers taskmaster-postgres`, enqueue-50). If one exists, the server refuses the commit as a whole, and it is sent again.
 */
export class NewRows {
  /** Commits that are left until the rows of a family are taken for new again. */
  readonly #replacing = new Map<Family, number>();

  expects(family: Family): boolean {
    return MOSTLY_NEW.includes(family) && !this.#replacing.has(family);
  }

  committed(): void {
    for (const [family, left] of this.#replacing) {
      if (left === 1) this.#replacing.delete(family);
      else this.#replacing.set(family, left - 1);
    }
  }

  /** True if a row was there that was taken for new. The commit then changed nothing, and may be sent again. */
  isRefuted(error: unknown): boolean {
    const cause = error instanceof DatabaseError ? (error.cause as { code?: unknown; table?: unknown }) : undefined;
    if (cause?.code !== UNIQUE_VIOLATION) return false;
    // Not each database names the table.
    const found = MOSTLY_NEW.filter((family) => this.expects(family));
    const named = found.filter((family) => familyNames[family] === cause.table);
    const families = named.length > 0 ? named : found;
    for (const family of families) this.#replacing.set(family, REPLACING_COMMITS);
    return families.length > 0;
  }
}
