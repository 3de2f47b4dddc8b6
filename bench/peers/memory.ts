import { readdirSync, readFileSync } from 'node:fs';

const PARENT_FIELD = 1;
const KIB = 1024;

/**
 * Memory of processes and all their descendants, in bytes. Shared memory counts once. Undefined if the system does not report
 * it.
 */
export function memoryOfTrees(roots: readonly number[]): number | undefined {
  const pids = descendants(roots, parents());
  const known = pids.flatMap((pid) => proportionalBytes(pid) ?? []);
  return known.length === 0 ? undefined : known.reduce((sum, bytes) => sum + bytes, 0);
}

/** The processes and all their descendants. */
export function descendants(roots: readonly number[], parentOf: ReadonlyMap<number, number>): number[] {
  const found = new Set(roots);
  for (let size = 0; size < found.size; ) {
    size = found.size;
    for (const [pid, parent] of parentOf) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

function parents(): ReadonlyMap<number, number> {
  return new Map(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name): [number, number][] => {
        const stat = read(`/proc/${name}/stat`);
        if (stat === undefined) return []; // it ended meanwhile
        // The name may contain spaces and parentheses; the fields begin behind the last parenthesis.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        return [[Number(name), Number(fields[PARENT_FIELD])]];
      }),
  );
}

function proportionalBytes(pid: number): number | undefined {
  const kib = /^Pss:\s+(\d+)/m.exec(read(`/proc/${pid}/smaps_rollup`) ?? '')?.[1];
  return kib === undefined ? undefined : Number(kib) * KIB;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
