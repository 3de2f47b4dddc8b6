import { BackupError } from '../format/errors.ts';
import {
  type BackupOrigin,
  decodeManifest,
  encodeManifest,
  MANIFEST,
  MAX_MANIFEST_BYTES,
  type Manifest,
  type PartitionRecord,
  PROGRESS,
  partOfName,
} from '../format/manifest.ts';
import { type BackupStore, type BackupTarget, intactPart } from '../places/place.ts';

/** Interval at which the complete partitions are noted, in ms. Others are sent again after an interruption. */
const SAVE_EVERY_MS = 1_000;

export interface DraftOptions {
  readonly target: BackupTarget;
  readonly origin: BackupOrigin;
  /** Release of this program. */
  readonly release: string;
  /** A random id, which distinguishes this run from others that write to the same place. */
  readonly run: string;
  /** When this run began, in ms since 1970. */
  readonly begunAtMs: number;
  /** The unfinished backup in the target; see `findUnfinished`. */
  readonly earlier: Manifest | undefined;
}

/** The unfinished backup in a place; undefined if the place is empty. Throws `BackupError` if it has something else. */
export async function findUnfinished({ title, store }: BackupTarget): Promise<Manifest | undefined> {
  if (!store) return undefined;
  const names = await store.list();
  if (names.includes(MANIFEST)) {
    throw new BackupError('BACKUP_PLACE_IN_USE', `${title} has a complete backup`, { hint: 'choose another place' });
  }
  const bytes = names.includes(PROGRESS) ? await store.read(PROGRESS, MAX_MANIFEST_BYTES) : undefined;
  if (bytes) return decodeManifest(PROGRESS, bytes);
  if (names.length === 0) return undefined;
  throw new BackupError('BACKUP_PLACE_IN_USE', `${title} is not empty`, { hint: 'choose an empty place' });
}

/** A backup that is being written, with the partitions that are complete. */
export class Draft {
  readonly #options: DraftOptions;
  readonly #begunAt: string;
  readonly #partitions = new Map<number, PartitionRecord>();
  #savedAt = Number.NEGATIVE_INFINITY;
  #saving: Promise<void> = Promise.resolve();

  private constructor(options: DraftOptions, begunAt: string) {
    this.#options = options;
    this.#begunAt = begunAt;
  }

  /**
   * Begins a backup, or continues the earlier one: it keeps the partitions whose parts are intact. Throws `BackupError` if the
   * earlier one is of another cluster.
   */
  static async open(options: DraftOptions): Promise<Draft> {
    const { target, earlier, origin, begunAtMs } = options;
    const isContinued = earlier !== undefined && continues(target, earlier, origin);
    const draft = new Draft(options, isContinued ? earlier.begunAt : new Date(begunAtMs).toISOString());
    if (isContinued && target.store) {
      for (const partition of earlier.partitions) {
        if (await isWhole(target.store, partition)) draft.#partitions.set(partition.id, partition);
      }
    }
    await draft.#save();
    return draft;
  }

  /** Ids of the partitions that are not complete. */
  get missing(): readonly number[] {
    const { partitionCount } = this.#options.origin;
    return Array.from({ length: partitionCount }, (_, id) => id).filter((id) => !this.#partitions.has(id));
  }

  /** The partitions that are complete. */
  get complete(): Iterable<PartitionRecord> {
    return this.#partitions.values();
  }

  /** Adds a complete partition. Its parts are in the target. */
  async add(partition: PartitionRecord): Promise<void> {
    this.#partitions.set(partition.id, partition);
    if (performance.now() - this.#savedAt < SAVE_EVERY_MS) return;
    this.#savedAt = performance.now();
    await this.save();
  }

  /** Notes the complete partitions, so that a later run can continue. */
  save(): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {})
      .then(() => this.#assertAlone())
      .then(() => this.#save());
    return this.#saving;
  }

  /** Writes the manifest: from now on the backup is complete. */
  async finish(finishedAtMs: number): Promise<Manifest> {
    const { target } = this.#options;
    await this.save();
    const manifest = this.#manifest(new Date(finishedAtMs).toISOString());
    if (target.store) await removeOthers(target.store, manifest);
    await target.finish(MANIFEST, encodeManifest(manifest));
    await target.store?.remove(PROGRESS);
    return manifest;
  }

  async #save(): Promise<void> {
    const { store } = this.#options.target;
    await store?.write(PROGRESS, encodeManifest({ ...this.#manifest(''), run: this.#options.run }));
  }

  async #assertAlone(): Promise<void> {
    const { target, run } = this.#options;
    const bytes = await target.store?.read(PROGRESS, MAX_MANIFEST_BYTES);
    if (!target.store || (bytes && decodeManifest(PROGRESS, bytes).run === run)) return;
    throw new BackupError('BACKUP_PLACE_IN_USE', `another program writes a backup to ${target.title}`, {
      hint: 'choose another place',
    });
  }

  #manifest(finishedAt: string): Manifest {
    const { origin, release } = this.#options;
    const { clusterId, nodeId, partitionCount } = origin;
    const partitions = [...this.#partitions.values()].toSorted((a, b) => a.id - b.id);
    return { clusterId, nodeId, partitionCount, release, begunAt: this.#begunAt, finishedAt, partitions };
  }
}

/** Whether the earlier backup is of this origin. Throws `BackupError` if it is certainly of another one. */
function continues({ title }: BackupTarget, earlier: Manifest, origin: BackupOrigin): boolean {
  const { clusterId, partitionCount, nodeId } = earlier;
  if (clusterId === origin.clusterId && partitionCount === origin.partitionCount) {
    // A node without a cluster has a new id after each start, so it cannot be distinguished from another node.
    return nodeId === origin.nodeId;
  }
  const whose = clusterId === '' ? 'a node without a cluster' : `cluster ${clusterId}`;
  throw new BackupError('OTHER_CLUSTER', `${title} has an unfinished backup of ${whose}`, {
    hint: 'choose another place',
  });
}

async function isWhole(store: BackupStore, { parts }: PartitionRecord): Promise<boolean> {
  for (const part of parts) {
    if (!(await intactPart(store, part))) return false;
  }
  return true;
}

/** Removes parts of interrupted attempts. */
async function removeOthers(store: BackupStore, { partitions }: Manifest): Promise<void> {
  const named = new Set(partitions.flatMap(({ parts }) => parts.map(({ name }) => name)));
  for (const name of await store.list()) {
    if (partOfName(name) && !named.has(name)) await store.remove(name);
  }
}
