/**
 * Checks the version of Node, so that a missing feature does not fail later with an obscure error.
 * @throws Error on a version of Node older than 22.12.
 */
export function assertRuntime(runtime: { readonly withResolvers?: unknown } = Promise): void {
  if (typeof runtime.withResolvers === 'function') return;
  throw new Error(`TaskMaster's client needs Node 22.12 or newer; this is ${process.version} (${process.execPath})`);
}
