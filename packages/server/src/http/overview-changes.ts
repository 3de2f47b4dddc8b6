/** A line of an audit log; see docs/operate/audit.md. */
interface Line {
  readonly time: string;
  readonly kind: string;
  readonly action: string;
  readonly target?: string;
  readonly result: string;
  readonly principal?: string;
  readonly address?: string;
  readonly via?: string;
}

/** A change of the cluster or its data. `at`: in ms since 1970. `node`: the node or proxy that has recorded it. */
export type Change = Omit<Line, 'time'> & { readonly at: number; readonly node: string };

const MOST = 200;
/** A call that a node passes on is recorded there, too, at nearly the same time. */
const TOGETHER_MS = 10_000;

/** The lines of one program. */
interface Recorded {
  readonly name: string;
  readonly changes: readonly string[];
}

/** The changes that the programs have recorded, the newest first, each once. */
export function changesOf(programs: readonly Recorded[]): readonly Change[] {
  const all = programs.flatMap(({ name, changes }) => changes.map((line) => changeOf(line, name)));
  const direct = all.filter(({ via }) => via === undefined);
  const isTwice = (change: Change): boolean =>
    change.via !== undefined && direct.some((other) => isSame(change, other));
  return all
    .filter((change) => !isTwice(change))
    .sort((a, b) => b.at - a.at)
    .slice(0, MOST);
}

function changeOf(line: string, node: string): Change {
  const { time, ...change } = JSON.parse(line) as Line;
  return { ...change, at: Date.parse(time), node };
}

const isSame = (a: Change, b: Change): boolean =>
  a.action === b.action &&
  a.target === b.target &&
  a.address === b.address &&
  a.principal === b.principal &&
  Math.abs(a.at - b.at) < TOGETHER_MS;
