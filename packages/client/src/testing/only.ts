/** The first leased task, which must exist. */
export function only<T>(tasks: readonly T[]): T {
  const [first] = tasks;
  if (first === undefined || tasks.length > 1) throw new Error(`expected one task, got ${tasks.length}`);
  return first;
}
