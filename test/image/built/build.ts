import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../../support/paths.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { dockerfile, imageConfig } from '../dockerfile.ts';
import { baseImage } from './base-image.ts';
import type { Podman } from './podman.ts';

/** Each run has its own. */
export const IMAGE = `localhost/taskmaster-test/image:${process.pid}`;
const CERTIFICATES = '/etc/ssl/certs/of-this-machine.crt';

/** Builds the image of this workspace from the Dockerfile, without pulling anything. */
export async function buildImage(podman: Podman): Promise<void> {
  const base = await baseImage(podman);
  await using directory = await temporaryDirectory();
  const replaced = `--build-context=${imageConfig().base}=docker-image://${base}`;
  const registry = await registryAccess(directory.path);
  // The isolation needs no cgroups, so it also builds inside of a container.
  const args = ['bud', '--isolation=chroot', '--pull=never', replaced, ...registry, `--tag=${IMAGE}`];
  await podman.run('buildah', [...args, `--file=${dockerfile}`, root]);
}

export async function removeImage(podman: Podman): Promise<void> {
  if (await podman.hasImage(IMAGE)) await podman.podman('rmi', '--force', IMAGE);
}

/** Lets npm in the build trust what it trusts on this machine. */
async function registryAccess(directory: string): Promise<string[]> {
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates === undefined) return [];
  const settings = join(directory, 'npmrc');
  await writeFile(settings, `cafile=${CERTIFICATES}\n`);
  return [`--volume=${settings}:/root/.npmrc:ro`, `--volume=${certificates}:${CERTIFICATES}:ro`];
}

/** Bytes of an image. `own`: without the base image. */
export interface ImageSize {
  readonly unpacked: number;
  readonly ownUnpacked: number;
  /** What a registry stores and a pull transfers. */
  readonly compressed: number;
  readonly ownCompressed: number;
}

export async function imageSize(podman: Podman): Promise<ImageSize> {
  const whole = await inspect(podman, IMAGE);
  const base = await inspect(podman, await baseImage(podman));
  await using directory = await temporaryDirectory();
  await podman.podman('push', '--quiet', '--compress', IMAGE, `dir:${directory.path}`);
  const manifest = await readFile(join(directory.path, 'manifest.json'), 'utf8');
  // In the order in which they are applied.
  const layers = (JSON.parse(manifest) as Manifest).layers.map(({ size }) => size);
  const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
  return {
    unpacked: whole.Size,
    ownUnpacked: whole.Size - base.Size,
    compressed: sum(layers),
    ownCompressed: sum(layers.slice(base.RootFS.Layers.length)),
  };
}

interface Manifest {
  readonly layers: readonly { readonly size: number }[];
}

interface Inspected {
  readonly Size: number;
  readonly RootFS: { readonly Layers: readonly string[] };
}

async function inspect(podman: Podman, image: string): Promise<Inspected> {
  const [found] = JSON.parse(await podman.podman('image', 'inspect', image)) as readonly Inspected[];
  if (found === undefined) throw new Error(`there is no image ${image}`);
  return found;
}
