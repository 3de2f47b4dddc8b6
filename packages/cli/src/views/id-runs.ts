/** Ascending numbers as ranges: `0-3, 7, 9-10`. Beyond `maxLength` characters the list ends with `...`. */
export function idRuns(ids: readonly number[], maxLength = Number.POSITIVE_INFINITY): string {
  const runs: string[] = [];
  let length = 0;
  for (let at = 0; at < ids.length; ) {
    const first = ids[at] ?? 0;
    let next = at + 1;
    while (ids[next] === first + (next - at)) next++;
    const run = next === at + 1 ? String(first) : `${first}-${first + (next - at) - 1}`;
    length += run.length + SEPARATOR.length;
    if (length > maxLength && runs.length > 0) return `${runs.join(SEPARATOR)}${SEPARATOR}...`;
    runs.push(run);
    at = next;
  }
  return runs.join(SEPARATOR);
}

const SEPARATOR = ', ';
