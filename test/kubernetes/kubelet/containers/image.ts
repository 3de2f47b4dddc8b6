import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clientCli, nodeCli, proxyCli, root } from '../../../support/paths.ts';

/** A stand-in for a container image: programs of this machine in a directory of the PATH. */
export interface Image {
  /** The script of each program, run by Node. */
  readonly programs: Readonly<Record<string, string>>;
}

/** The image of this workspace. Its first word is the program, like the entry point of the real one. */
export const presentImage: Image = {
  programs: { taskmaster: clientCli, 'taskmaster-node': nodeCli, 'taskmaster-proxy': proxyCli },
};

/** Where programs are in a container. */
export const PROGRAMS = '/app/bin';
export const IMAGE_PATH = `${PROGRAMS}:/usr/local/bin:/usr/bin:/bin`;

/** Writes the programs of an image into a directory. */
export async function unpack({ programs }: Image, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const [name, script] of Object.entries(programs)) {
    const line = `exec ${quoted(process.execPath)} ${quoted(script)} "$@"`;
    await writeFile(join(directory, name), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  }
}

/** What the programs of an image need of this machine. */
export const IMAGE_MOUNTS: readonly string[] = [root, process.execPath];

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
