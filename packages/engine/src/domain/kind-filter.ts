import { limits } from '@taskmaster/proto';
import { type NameMatcher, namePattern } from './name-pattern.ts';

/** The kinds of tasks that a lease request accepts. */
export class KindFilter {
  /** The same for filters that accept the same kinds. */
  readonly key: string;
  /** Whether it accepts tasks without a kind. */
  readonly acceptsNone: boolean;
  readonly #exact: ReadonlySet<string>;
  readonly #patterns: readonly NameMatcher[];
  /** What the patterns have said of kinds. */
  readonly #known = new Map<string, boolean>();

  /** `patterns`: kinds, and patterns with `*`. The empty one accepts tasks without a kind, and no other one does. */
  constructor(patterns: readonly string[]) {
    const distinct = [...new Set(patterns)].sort();
    // No pattern has a control character.
    this.key = distinct.join('\0');
    this.acceptsNone = distinct[0] === '';
    this.#exact = new Set(distinct.filter((pattern) => !pattern.includes('*')));
    this.#patterns = distinct.filter((pattern) => pattern.includes('*')).map(namePattern);
  }

  accepts(kind: string | undefined): boolean {
    if (!kind) return this.acceptsNone;
    if (this.#exact.has(kind)) return true;
    if (this.#patterns.length === 0) return false;
    let accepted = this.#known.get(kind);
    if (accepted === undefined) {
      accepted = this.#patterns.some((matches) => matches(kind));
      if (this.#known.size >= limits.queueKinds) this.#known.clear();
      this.#known.set(kind, accepted);
    }
    return accepted;
  }

  /** The keys of the map that it accepts. The empty key stands for tasks without a kind. */
  *among(kinds: ReadonlyMap<string, unknown>): Generator<string> {
    if (this.#patterns.length === 0 && this.#exact.size < kinds.size) {
      for (const kind of this.#exact) if (kinds.has(kind)) yield kind;
      return;
    }
    for (const kind of kinds.keys()) if (this.accepts(kind)) yield kind;
  }
}
