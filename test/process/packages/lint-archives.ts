// Prints what publint and attw say of packed packages. A process of its own: the sources of attw, which the tests' condition
// `source` chooses, do not run.
import { readFile } from 'node:fs/promises';
import { checkPackage, createPackageFromTarballData, type Problem } from '@arethetypeswrong/core';
import { publint } from 'publint';

/** The packages are ESM: what resolutions without ESM find does not matter. */
const isOfModules = (problem: Problem): boolean =>
  !('resolutionKind' in problem) || !['node10', 'node16-cjs'].includes(problem.resolutionKind);

const found = [];
for (const archive of process.argv.slice(2)) {
  const tarball = new Uint8Array(await readFile(archive));
  const { messages } = await publint({ pack: { tarball: tarball.buffer }, strict: true });
  // The descriptor is data. It has no types.
  const typed = await checkPackage(createPackageFromTarballData(tarball), { excludeEntrypoints: ['descriptor'] });
  const problems = typed.types === false ? ['has no types'] : typed.problems.filter(isOfModules);
  found.push({ archive, messages, problems });
}
process.stdout.write(JSON.stringify(found));
