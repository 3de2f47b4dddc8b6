/** A condition that must hold. */
export interface Check {
  readonly what: string;
  readonly ok: boolean;
  /** Examples that break it. */
  readonly against: readonly string[];
}

const EXAMPLES = 5;

export function check(what: string, against: readonly string[]): Check {
  const examples = against.slice(0, EXAMPLES);
  const more = against.length - examples.length;
  return { what, ok: against.length === 0, against: more > 0 ? [...examples, `and ${more} more`] : examples };
}
