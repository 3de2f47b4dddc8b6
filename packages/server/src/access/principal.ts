import { namePattern } from '@taskmaster/engine/domain';
import { bitOf, Memo, type Right } from '@taskmaster/proto';

export interface Grant {
  /** Patterns of groups. Undefined: rights about the whole cluster. */
  readonly groups?: readonly string[] | undefined;
  readonly allow: readonly Right[];
}

/** Decisions about more groups are computed again. */
const MOST_KNOWN_GROUPS = 4_096;

/** A person or program with rights. */
export class Principal {
  readonly name: string;
  readonly grants: readonly Grant[];
  readonly #byPattern: { readonly matches: (group: string) => boolean; readonly bits: number }[] = [];
  readonly #cluster: number = 0;
  /** The rights on groups that were asked for. */
  readonly #known = new Memo<string, number>(MOST_KNOWN_GROUPS);

  constructor(name: string, grants: readonly Grant[]) {
    this.name = name;
    this.grants = grants;
    for (const { groups, allow } of grants) {
      let bits = allow.reduce((sum, right) => sum | bitOf(right), 0);
      if (allow.includes('manage-cluster')) bits |= bitOf('back-up');
      if (groups === undefined) this.#cluster |= bits;
      else for (const pattern of groups) this.#byPattern.push({ matches: namePattern(pattern), bits });
    }
  }

  /** `group`: undefined for rights about the whole cluster. */
  has(right: Right, group: string | undefined): boolean {
    return ((group === undefined ? this.#cluster : this.#on(group)) & bitOf(right)) !== 0;
  }

  #on(group: string): number {
    const known = this.#known.get(group);
    if (known !== undefined) return known;
    const bits = this.#byPattern.reduce((sum, grant) => (grant.matches(group) ? sum | grant.bits : sum), 0);
    return this.#known.remember(group, bits);
  }
}
