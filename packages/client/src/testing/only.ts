/** The first of what was leased, which the test knows to be there. */
export function only<T>(tasks: readonly T[]): T {
  const [first] = tasks;
  if (first === undefined || tasks.length > 1) throw new Error(`expected one task, got ${tasks.length}`);
  return first;
}
