/**
 * What `pnpm pack` and `pnpm publish` change in the manifest of a package. pnpm itself replaces `workspace:*` by versions.
 *
 * - The condition `source` and the entries of `./testing` lead to files that are not packed.
 * - An import of the form `#name` leads to a package in the workspace, and to its bundle in the packed package.
 *   `scripts/release/prepack.ts` makes the bundles.
 * - Scripts and development dependencies are of use in the workspace only.
 */
function publishedManifest({ exports, imports, scripts, devDependencies, ...manifest }) {
  const published = { ...manifest, exports: publishedExports(exports) };
  if (imports !== undefined) {
    const names = Object.keys(imports);
    published.imports = Object.fromEntries(names.map((name) => [name, `./dist/bundled/${name.slice(1)}.cjs`]));
  }
  return published;
}

function publishedExports(exports) {
  const entries = Object.entries(exports).filter(([path]) => !path.startsWith('./testing'));
  return Object.fromEntries(
    entries.map(([path, target]) => {
      if (typeof target === 'string') return [path, target];
      const { source, ...conditions } = target;
      return [path, conditions];
    }),
  );
}

export const hooks = { beforePacking: publishedManifest };
