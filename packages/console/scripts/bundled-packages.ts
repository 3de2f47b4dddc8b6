/** The packages whose code is in the pages. Their licences are in THIRD-PARTY-NOTICES: `vitest run scripts -u` writes them. */
export const bundledPackages: readonly string[] = ['@bufbuild/protobuf', 'preact', 'uplot'];
