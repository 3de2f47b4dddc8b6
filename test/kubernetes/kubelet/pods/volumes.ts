import { chmod, chown, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type {
  V1DownwardAPIVolumeFile,
  V1KeyToPath,
  V1Pod,
  V1Volume,
  V1VolumeProjection,
} from '@kubernetes/client-node';
import type { Contents } from '../api/object-reader.ts';
import { type EnvironmentSources, fieldOf, MissingSource } from '../containers/environment.ts';

/** Where the contents of volumes come from. */
export interface VolumeSources extends Pick<EnvironmentSources, 'pod' | 'podAddress' | 'nodeAddress'> {
  contentsOf(kind: 'configMap' | 'secret', name: string): Promise<Contents | undefined>;
  /** A token of the pod's service account. */
  serviceAccountToken(audience: string | undefined, seconds: number): Promise<string>;
  /** The directory of a claim, which outlives the pod. Undefined while it is not bound. */
  directoryOfClaim(name: string): string | undefined;
}

export interface MountedVolume {
  readonly directory: string;
  /** Containers cannot write to it. */
  readonly isReadOnly: boolean;
}

/** Writes the volumes of a pod below a directory. Throws `MissingSource` if a part does not exist yet. */
export async function writeVolumes(
  pod: V1Pod,
  parent: string,
  sources: VolumeSources,
): Promise<ReadonlyMap<string, MountedVolume>> {
  const found = new Map<string, MountedVolume>();
  const group = pod.spec?.securityContext?.fsGroup;
  for (const volume of pod.spec?.volumes ?? []) {
    const directory = join(parent, volume.name);
    await mkdir(directory, { recursive: true });
    found.set(volume.name, await writeVolume(volume, directory, sources, group));
  }
  return found;
}

async function writeVolume(
  volume: V1Volume,
  directory: string,
  sources: VolumeSources,
  group: number | undefined,
): Promise<MountedVolume> {
  const { emptyDir, persistentVolumeClaim } = volume;
  if (emptyDir) {
    await chmod(directory, 0o777);
    return { directory, isReadOnly: false };
  }
  if (persistentVolumeClaim) {
    const claimed = sources.directoryOfClaim(persistentVolumeClaim.claimName);
    if (claimed === undefined) throw new MissingSource('volume of claim', persistentVolumeClaim.claimName);
    if (group !== undefined) await giveToGroup(claimed, group);
    return { directory: claimed, isReadOnly: persistentVolumeClaim.readOnly ?? false };
  }
  await rm(directory, { recursive: true });
  await mkdir(directory);
  await writeFiles(volume, directory, sources, group);
  return { directory, isReadOnly: true };
}

/** Writes the files of Secrets and ConfigMaps again, as a kubelet does within a minute. Each file is replaced as a whole. */
export async function refreshVolumes(pod: V1Pod, parent: string, sources: VolumeSources): Promise<void> {
  const group = pod.spec?.securityContext?.fsGroup;
  for (const volume of pod.spec?.volumes ?? []) {
    if (volume.secret || volume.configMap) await writeFiles(volume, join(parent, volume.name), sources, group);
  }
}

async function writeFiles(
  volume: V1Volume,
  directory: string,
  sources: VolumeSources,
  group: number | undefined,
): Promise<void> {
  const { configMap, secret, projected, downwardAPI } = volume;
  const parts: V1VolumeProjection[] = [...(projected?.sources ?? [])];
  if (configMap) parts.push({ configMap });
  if (secret) parts.push({ secret: { ...secret, name: secret.secretName } });
  if (downwardAPI) parts.push({ downwardAPI });
  if (parts.length === 0) throw new TypeError(`volume ${volume.name} has an unknown kind`);
  const mode = (projected ?? configMap ?? secret ?? downwardAPI)?.defaultMode ?? 0o644;
  for (const part of parts) {
    for (const { path, bytes, mode: ownMode } of await filesOf(part, sources)) {
      const file = join(directory, path);
      const draft = `${file}.draft`;
      await mkdir(dirname(file), { recursive: true });
      // A group that may use the volume may read its files.
      const bits = (ownMode ?? mode) | (group === undefined ? 0 : 0o440);
      await writeFile(draft, bytes, { mode: bits });
      await chmod(draft, bits);
      if (group !== undefined) await chown(draft, 0, group);
      await rename(draft, file);
    }
  }
}

interface VolumeFile {
  readonly path: string;
  readonly bytes: Buffer;
  readonly mode: number | undefined;
}

async function filesOf(part: V1VolumeProjection, sources: VolumeSources): Promise<VolumeFile[]> {
  const { configMap, secret, downwardAPI, serviceAccountToken } = part;
  if (configMap) return contentFiles('configMap', configMap, sources);
  if (secret) return contentFiles('secret', secret, sources);
  if (downwardAPI) return (downwardAPI.items ?? []).map((item) => fieldFile(item, sources));
  if (serviceAccountToken) {
    const { audience, expirationSeconds = 3600, path } = serviceAccountToken;
    const token = await sources.serviceAccountToken(audience, expirationSeconds);
    return [{ path, bytes: Buffer.from(token), mode: undefined }];
  }
  throw new TypeError(`a part of a projected volume has an unknown kind: ${Object.keys(part).join(', ')}`);
}

async function contentFiles(
  kind: 'configMap' | 'secret',
  {
    name = '',
    items,
    optional,
  }: { readonly name?: string; readonly items?: V1KeyToPath[]; readonly optional?: boolean },
  sources: VolumeSources,
): Promise<VolumeFile[]> {
  const contents = await sources.contentsOf(kind, name);
  if (contents === undefined) {
    if (optional) return [];
    throw new MissingSource(kind, name);
  }
  if (items === undefined) {
    return Object.entries(contents).map(([key, bytes]) => ({ path: key, bytes, mode: undefined }));
  }
  return items.flatMap(({ key, path, mode }) => {
    const bytes = contents[key];
    if (bytes !== undefined) return [{ path, bytes, mode }];
    if (optional) return [];
    throw new MissingSource(kind, `${name}, key ${key}`);
  });
}

function fieldFile({ path, fieldRef, mode }: V1DownwardAPIVolumeFile, sources: VolumeSources): VolumeFile {
  if (!fieldRef) throw new TypeError(`the source of file ${path} is not supported`);
  return { path, bytes: Buffer.from(fieldOf(fieldRef.fieldPath, sources)), mode };
}

/** As `fsGroup` says: the group owns everything in the volume and may write to it. */
async function giveToGroup(path: string, group: number): Promise<void> {
  await chown(path, 0, group);
  await chmod(path, 0o2775);
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
    const inner = join(entry.parentPath, entry.name);
    if (entry.isDirectory() || entry.isFile()) {
      await chown(inner, -1, group);
      await chmod(inner, entry.isDirectory() ? 0o2775 : 0o664);
    }
  }
}
