/** The names of all options of an interface. The compiler notices when one is missing. */
export type OptionNames<Options> = Readonly<Record<keyof Options, true>>;

/**
 * Refuses options that do not exist, which would have no effect. Only JavaScript and casts get them past the compiler.
 * @param what whose options they are, for the message.
 * @throws TypeError that suggests the right name.
 */
export function assertKnown(what: string, given: unknown, known: Readonly<Record<string, true>>): void {
  if (given === undefined) return;
  if (typeof given !== 'object' || given === null)
    throw new TypeError(`${what}: must be an object with ${list(known)}`);
  for (const name in given) {
    if (!Object.hasOwn(known, name)) throw unknownOption(what, name, known);
  }
}

function unknownOption(what: string, name: string, known: Readonly<Record<string, true>>): TypeError {
  const similar = mostSimilar(name, Object.keys(known));
  const hint = similar === undefined ? `only ${list(known)}` : `did you mean ${similar}?`;
  return new TypeError(`${what}: there is no ${name}, ${hint}`);
}

const list = (known: Readonly<Record<string, true>>): string => new Intl.ListFormat('en').format(Object.keys(known));

/** The name that was probably meant. Undefined: none is similar. */
function mostSimilar(name: string, known: readonly string[]): string | undefined {
  // Long texts are no slips of the pen, and would take long to compare.
  if (name.length > 64) return undefined;
  const lower = name.toLowerCase();
  const ranked = known
    .map((one) => ({ one, edits: edits(lower, one.toLowerCase()) }))
    .toSorted((a, b) => a.edits - b.edits);
  const [best] = ranked;
  return best !== undefined && best.edits <= Math.max(1, Math.floor(name.length / 3)) ? best.one : undefined;
}

/** How many characters to insert, delete, replace or swap with their neighbour make one text of the other. */
function edits(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (beforeLast[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[to.length] ?? 0;
}
