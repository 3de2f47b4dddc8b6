/**
 * Says what is missing before something in the midst of it fails.
 * @throws Error on a Node older than 22.12, or what is like it.
 */
export function assertRuntime(runtime: { readonly withResolvers?: unknown } = Promise): void {
  if (typeof runtime.withResolvers === 'function') return;
  throw new Error(`TaskMaster's client needs Node 22.12 or newer; this is ${process.version} (${process.execPath})`);
}
