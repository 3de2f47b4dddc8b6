import { spawnSync } from 'node:child_process';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findNpm } from '../../process/packages/npm.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { imageConfig } from '../dockerfile.ts';
import type { Podman } from './podman.ts';

const { base } = imageConfig();
const STAND_IN = `localhost/taskmaster-test/base:${process.version}`;

/**
 * The base image that the Dockerfile names, if this machine has it. Otherwise a stand-in: Debian of the same release with Node
 * and npm of this machine, and without the user and the entry point of the real one. Later runs reuse it.
 */
export async function baseImage(podman: Podman): Promise<string> {
  const real = `docker.io/library/${base}`;
  if (await podman.hasImage(real)) return real;
  if (!(await podman.hasImage(STAND_IN))) await makeStandIn(podman);
  return STAND_IN;
}

/** Why there is no base image and none can be made; undefined if there is one or it can. */
export async function whyNoBaseImage(podman: Podman): Promise<string | undefined> {
  if ((await podman.hasImage(`docker.io/library/${base}`)) || (await podman.hasImage(STAND_IN))) return undefined;
  if (spawnSync('mmdebstrap', ['--version']).status === 0) return undefined;
  return `there is neither the image ${base} nor mmdebstrap, which makes a stand-in`;
}

async function makeStandIn(podman: Podman): Promise<void> {
  const [, debian] = /-(\w+)-slim$/.exec(base) ?? [];
  const npm = await findNpm();
  if (debian === undefined || npm.kind === 'missing') throw new Error(`there can be no stand-in for ${base}`);
  await using directory = await temporaryDirectory();
  const added = join(directory.path, 'added');
  const local = join(added, 'usr', 'local');
  await mkdir(join(local, 'bin'), { recursive: true });
  await cp(process.execPath, join(local, 'bin', 'node'));
  await cp(dirname(dirname(npm.cli)), join(local, 'lib', 'node_modules', 'npm'), { recursive: true });
  for (const program of ['npm', 'npx']) {
    await symlink(`../lib/node_modules/npm/bin/${program}-cli.js`, join(local, 'bin', program));
  }
  const archive = join(directory.path, 'base.tar');
  await podman.run('mmdebstrap', ['--variant=minbase', `--customize-hook=sync-in ${added} /`, debian, archive]);
  await podman.podman('import', archive, STAND_IN);
}
