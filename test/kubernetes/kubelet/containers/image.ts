import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { clientCli, nodeCli, proxyCli, root } from '../../../support/paths.ts';
import type { Mount } from './mount.ts';

/** A stand-in for a container image: programs of this machine in a directory of the PATH. */
export interface Image {
  /** The script of each program, inside of the workspace. Node runs it. */
  readonly programs: Readonly<Record<string, string>>;
}

/** The image of this workspace. Its first word is the program, like the entry point of the real one. */
export const presentImage: Image = {
  programs: { taskmaster: clientCli, 'taskmaster-node': nodeCli, 'taskmaster-proxy': proxyCli },
};

/** Where programs are in a container. */
export const PROGRAMS = '/app/bin';
export const IMAGE_PATH = `${PROGRAMS}:/usr/local/bin:/usr/bin:/bin`;

/** Where this workspace and its Node are in a container: at no path that a pod may mount a volume over. */
const WORKSPACE = '/opt/taskmaster';
const NODE = '/opt/node';

/** What the programs of an image need of this machine. */
export const IMAGE_MOUNTS: readonly Mount[] = [
  { from: root, to: WORKSPACE, isReadOnly: true },
  { from: process.execPath, to: NODE, isReadOnly: true },
];

/** Writes the programs of an image into a directory. */
export async function unpack({ programs }: Image, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const [name, script] of Object.entries(programs)) {
    const path = join(WORKSPACE, relative(root, script));
    await writeFile(join(directory, name), `#!/bin/sh\nexec ${NODE} ${path} "$@"\n`, { mode: 0o755 });
  }
}
