import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../../support/paths.ts';
import { runProcess } from '../../support/processes/child-process.ts';
import { environment } from './npm.ts';

/** A package as it is published. */
export interface Packed {
  readonly name: string;
  readonly version: string;
  /** Path of its archive. */
  readonly archive: string;
  readonly bytes: number;
  /** Its files, relative to the package. */
  readonly files: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  /** The range of versions of Node that it names. */
  readonly node: string;
  /** Its folder in this workspace. */
  readonly folder: string;
}

/** Packs all packages as a release does. */
export async function packAll(directory: string): Promise<Packed[]> {
  const archives = join(directory, 'archives');
  await mkdir(archives);
  const release = join(root, 'scripts', 'release', 'release.ts');
  const args = [release, '--dry-run', `--out=${archives}`];
  const { code, stdout, stderr } = await runProcess(process.execPath, args, { cwd: root, env: environment() });
  if (code !== 0) throw new Error(`the release could not pack:\n${stderr}`);
  if (!/^CHANGELOG\.md would get the heading "## /m.test(stdout))
    throw new Error(`no heading of the changelog in: ${stdout}`);
  const names = await readdir(archives);
  return await Promise.all(names.toSorted().map((name) => readPacked(join(archives, name))));
}

async function readPacked(archive: string): Promise<Packed> {
  const list = await runProcess('tar', ['-tzf', archive]);
  const manifest = await runProcess('tar', ['-xzOf', archive, 'package/package.json']);
  const { name, version, dependencies = {}, engines } = JSON.parse(manifest.stdout);
  const files = list.stdout.trim().split('\n');
  return {
    name,
    version,
    archive,
    bytes: (await stat(archive)).size,
    files: files.map((file) => file.replace(/^package\//, '')).toSorted(),
    dependencies,
    node: engines.node,
    folder: join(root, 'packages', name.replace('@taskmaster/', '')),
  };
}

/** The archives of a package and of all packages of this workspace that it needs. */
export function archivesFor(name: string, packed: readonly Packed[]): string[] {
  const found = new Set<Packed>();
  const add = (wanted: string): void => {
    const one = packed.find((each) => each.name === wanted);
    if (one === undefined || found.has(one)) return;
    found.add(one);
    for (const dependency of Object.keys(one.dependencies)) add(dependency);
  };
  add(name);
  return [...found].map(({ archive }) => archive);
}

/** The names of the sources of a package that are published in their compiled form, without their extension. */
export async function publishedSources({ folder }: Packed): Promise<string[]> {
  const files = await readdir(join(folder, 'src'), { recursive: true });
  return files
    .filter((file) => /(?<!\.test|\.d)\.ts$/.test(file) && !/^testing\/|(^|\/)test-support\.ts$/.test(file))
    .map((file) => file.slice(0, -'.ts'.length))
    .toSorted();
}

/** The bytes of all files below a directory. */
export async function bytesIn(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(file.parentPath, file.name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** The oldest version in a range of the form `>=24` or `>=22.12`. */
export function oldestIn(range: string): string {
  const [, major, minor = '0'] = /^>=(\d+)(?:\.(\d+))?$/.exec(range) ?? [];
  if (major === undefined) throw new Error(`the range ${range} has another form`);
  return `${major}.${minor}.0`;
}

/** The text of a file in a project. */
export function installedText(directory: string, ...path: readonly string[]): Promise<string> {
  return readFile(join(directory, 'node_modules', ...path), 'utf8');
}
