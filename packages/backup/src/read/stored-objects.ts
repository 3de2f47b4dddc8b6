import { BackupError } from '../format/errors.ts';
import { decodeManifest, MANIFEST, MAX_MANIFEST_BYTES, type Manifest, PROGRESS } from '../format/manifest.ts';
import { DAMAGE_HINT } from '../format/part.ts';
import type { BackupObject, BackupStore } from '../places/place.ts';

/** Number of parts that are read ahead, because a distant place answers slowly. */
const READ_AHEAD = 3;

/** The manifest of the backup in a place. Throws `BackupError` if there is none. */
export async function readManifest(store: BackupStore): Promise<Manifest> {
  return manifestOf(await manifestBytes(store));
}

/** The manifest, then the parts that it names in their order. Throws `BackupError` if one of them is missing. */
export async function* storedObjects(store: BackupStore): AsyncGenerator<BackupObject> {
  const bytes = await manifestBytes(store);
  const manifest = manifestOf(bytes);
  yield { name: MANIFEST, bytes };
  const parts = manifest.partitions.flatMap((partition) => partition.parts);
  const reads: Promise<Uint8Array | undefined>[] = [];
  const readNext = (index: number): void => {
    const part = parts[index];
    if (!part) return;
    const read = store.read(part.name, part.bytes);
    // If an earlier part throws, this one is not awaited.
    read.catch(() => {});
    reads.push(read);
  };
  for (let index = 0; index < READ_AHEAD; index++) readNext(index);
  for (const [index, { name }] of parts.entries()) {
    readNext(index + READ_AHEAD);
    const bytes = await reads.shift();
    if (!bytes) throw missingPart(name);
    yield { name, bytes };
  }
}

/** Throws unless the manifest has all partitions. */
export function assertFinished({ finishedAt, partitionCount, partitions }: Manifest): void {
  const isWhole = partitions.length === partitionCount && partitions.every(({ id }, index) => id === index);
  if (finishedAt !== '' && isWhole) return;
  throw new BackupError('BACKUP_INCOMPLETE', `the backup has ${partitions.length} of ${partitionCount} partitions`, {
    hint: UNFINISHED_HINT,
  });
}

/** A part that the manifest names is not there. */
export const missingPart = (name: string): BackupError =>
  new BackupError('BACKUP_INCOMPLETE', `part ${name} is missing`, { hint: DAMAGE_HINT });

async function manifestBytes(store: BackupStore): Promise<Uint8Array> {
  const bytes = await store.read(MANIFEST, MAX_MANIFEST_BYTES);
  if (!bytes) throw await noManifest(store);
  return bytes;
}

function manifestOf(bytes: Uint8Array): Manifest {
  const manifest = decodeManifest(MANIFEST, bytes);
  assertFinished(manifest);
  return manifest;
}

const UNFINISHED_HINT = 'continue it with the same `taskmaster backup create`, or use another backup';

async function noManifest(store: BackupStore): Promise<BackupError> {
  const names = await store.list();
  const { title } = store;
  if (names.includes(PROGRESS)) {
    return new BackupError('BACKUP_INCOMPLETE', `${title} has an unfinished backup`, { hint: UNFINISHED_HINT });
  }
  if (names.some((name) => name.startsWith('partition-'))) {
    return new BackupError('BACKUP_INCOMPLETE', `${MANIFEST} is missing in ${title}`, { hint: DAMAGE_HINT });
  }
  return new BackupError('NOT_A_BACKUP', `${title} has no backup`);
}
