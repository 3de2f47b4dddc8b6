// Packs all packages and moves the changes in CHANGELOG.md under their version. CONTRIBUTING.md says how to release.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { releaseChanges } from './changelog.ts';
import { manifestsOf, publishedInOrder, versionOf } from './versions.ts';

const HELP = `npm run release -- [options]

Packs all packages for the npm registry, and moves the changes in CHANGELOG.md under the version of the packages. The version is
the one in the manifests. Nothing is published: the commands that publish are printed.

  --dry-run    pack, and show the heading of CHANGELOG.md without writing it
  --out DIR    directory for the packages; packages in it are deleted first (default: release)
  --help       show this
`;

const root = resolve(import.meta.dirname, '..', '..');

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      'dry-run': { type: 'boolean', default: false },
      out: { type: 'string', default: join(root, 'release') },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  // Everything that can be refused is refused before anything is written.
  const manifests = await manifestsOf(root);
  const version = versionOf(manifests);
  const changelog = join(root, 'CHANGELOG.md');
  const { heading, text } = releaseChanges(await readFile(changelog, 'utf8'), version, new Date());
  if (!values['dry-run']) refuseUncommitted();

  const out = resolve(values.out);
  await pack(out);
  const proto = join(root, 'packages', 'proto');
  if (values['dry-run']) {
    process.stdout.write(`CHANGELOG.md would get the heading "${heading}".\n`);
    return;
  }
  await writeFile(changelog, text);
  await copyFile(join(proto, 'descriptor.binpb'), join(proto, 'baseline.binpb'));
  const archives = publishedInOrder(manifests).map((name) => join(out, archiveOf(name, version)));
  const commands = archives.map((archive) => `npm publish --access public ${archive}`);
  process.stdout.write(
    `CHANGELOG.md has the heading "${heading}", and baseline.binpb is the protocol of this release. Now commit, tag and publish:\n` +
      `${[`git commit -am "Release ${version}"`, `git tag v${version}`, ...commands].join('\n')}\n`,
  );
}

function refuseUncommitted(): void {
  const changed = execFileSync('git', ['status', '--porcelain', '--untracked-files=no'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (changed !== '') throw new Error(`a release has only what is committed; changed are:\n${changed}`);
}

/** Packs all packages into a directory, and prints their sizes. */
async function pack(out: string): Promise<void> {
  await mkdir(out, { recursive: true });
  const isPackage = (file: string): boolean => /^taskmaster-.+\.tgz$/.test(file);
  for (const file of (await readdir(out)).filter(isPackage)) await rm(join(out, file));
  const { config } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const args = ['-y', config.pnpm, '--recursive', '--filter', './packages/*', 'pack', '--pack-destination', out];
  // It prints all files of all packages.
  const { status, stdout, stderr } = spawnSync('npx', args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`pnpm could not pack:\n${stdout}${stderr}`);
  for (const file of (await readdir(out)).filter(isPackage)) {
    const { size } = await stat(join(out, file));
    process.stdout.write(`${join(out, file)} ${Math.ceil(size / 1024)} KiB\n`);
  }
}

/** The file name that `pnpm pack` gives to a package. */
function archiveOf(name: string, version: string): string {
  return `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
}
