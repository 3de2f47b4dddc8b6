import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DATA_FORMAT } from '@taskmaster/proto';
import { clientCli, nodeCli, proxyCli, root } from '../../../support/paths.ts';
import type { Mount } from './mount.ts';

/** A stand-in for a container image: programs of this machine in a directory of the PATH. */
export interface Image {
  /** The script of each program, inside of the workspace. Node runs it. */
  readonly programs: Readonly<Record<string, string>>;
  /** Text that replaces files of the workspace, by path. Default: no file is replaced. */
  readonly replaced?: Readonly<Record<string, string>>;
}

/** The image of this workspace. Its first word is the program, like the entry point of the real one. */
export const presentImage: Image = {
  programs: { taskmaster: clientCli, 'taskmaster-node': nodeCli, 'taskmaster-proxy': proxyCli },
};

const FORMATS_FILE = join(root, 'packages', 'proto', 'dist', 'data-formats.js');

/** An image of this workspace whose programs have one more data format, like a release that comes later. */
export async function laterImage(): Promise<Image> {
  const formats = await readFile(FORMATS_FILE, 'utf8');
  const end = '\n];\n';
  if (!formats.includes(end)) throw new Error(`${FORMATS_FILE} has no list of formats`);
  const added = `{ format: ${DATA_FORMAT + 1}, release: 'later', changed: 'Nothing.', downgrade: true }`;
  return { ...presentImage, replaced: { [FORMATS_FILE]: formats.replace(end, `${added},${end}`) } };
}

/** Where programs are in a container. */
const PROGRAMS = '/app/bin';
export const IMAGE_PATH = `${PROGRAMS}:/usr/local/bin:/usr/bin:/bin`;

/** Where this workspace and its Node are in a container: at no path that a pod may mount a volume over. */
const WORKSPACE = '/opt/taskmaster';
const NODE = '/opt/node';

/** What the programs of an image need of this machine. */
export const IMAGE_MOUNTS: readonly Mount[] = [
  { from: root, to: WORKSPACE, isReadOnly: true },
  { from: process.execPath, to: NODE, isReadOnly: true },
];

/** Writes what this machine has not of an image into a new directory. Returns it as mounts of a container. */
export async function unpack({ programs, replaced = {} }: Image, directory: string): Promise<readonly Mount[]> {
  const scripts = join(directory, 'bin');
  const files = join(directory, 'files');
  await mkdir(scripts, { recursive: true });
  await mkdir(files);
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(scripts, name), `#!/bin/sh\nexec ${NODE} ${inContainer(script)} "$@"\n`, { mode: 0o755 });
  }
  const mounts: Mount[] = [{ from: scripts, to: PROGRAMS, isReadOnly: true }];
  for (const [path, text] of Object.entries(replaced)) {
    const from = join(files, String(mounts.length));
    await writeFile(from, text);
    mounts.push({ from, to: inContainer(path), isReadOnly: true });
  }
  return mounts;
}

const inContainer = (path: string): string => join(WORKSPACE, relative(root, path));
