import type { BackupEnd, BackupHeader, TransferredAtom, TransferredRow } from '@taskmaster/proto';
import { PartitionCheck } from '../format/check-partition.ts';
import { BackupError } from '../format/errors.ts';
import {
  assertIntact,
  decodeManifest,
  MANIFEST,
  type Manifest,
  type PartitionRecord,
  type PartRecord,
  partOfName,
  recordOf,
} from '../format/manifest.ts';
import { DAMAGE_HINT, decodePart } from '../format/part.ts';
import { type BackupObject, type BackupSource, MAX_OBJECTS } from '../places/place.ts';
import { assertFinished, missingPart, storedObjects } from './stored-objects.ts';

/** The contents of a backup, in the order in which they must be restored. */
export type BackupEvent =
  /**
   * A partition begins. If it began before, all its earlier events are void. `nowMs`: the clock to which its instants refer.
   */
  | { readonly kind: 'begin'; readonly header: BackupHeader; readonly nowMs: number }
  | { readonly kind: 'rows'; readonly partition: number; readonly rows: readonly TransferredRow[] }
  | { readonly kind: 'atoms'; readonly partition: number; readonly atoms: readonly TransferredAtom[] }
  | { readonly kind: 'end'; readonly partition: number; readonly end: BackupEnd }
  /** A part was read. `manifest` is undefined while it has not arrived. */
  | { readonly kind: 'part'; readonly part: PartRecord; readonly manifest: Manifest | undefined };

/** A partition that is being read. */
interface Reading {
  readonly check: PartitionCheck;
  readonly parts: PartRecord[];
  nowMs: number | undefined;
}

/**
 * Reads a backup and checks every part of it. `take` gets the events, one after the other. Rejects with `BackupError`, or with
 * the error of `take`.
 *
 * The backup is intact only if this resolves, because the manifest of a stream comes last. So the events must not take effect
 * before.
 */
export async function readBackup(
  source: BackupSource,
  take: (event: BackupEvent) => Promise<void> | void,
): Promise<Manifest> {
  const reader = new BackupReader(take);
  const objects = source.store ? storedObjects(source.store) : source.stream();
  for await (const object of objects) await reader.next(object);
  return reader.finish(source.title);
}

class BackupReader {
  readonly #take: (event: BackupEvent) => Promise<void> | void;
  readonly #partitions = new Map<number, Reading>();
  /** By name; empty until the manifest was read. */
  readonly #expected = new Map<string, { readonly part: PartRecord; readonly partition: PartitionRecord }>();
  #manifest: Manifest | undefined;
  /** Number of parts that were read. A stream may have more than any manifest names. */
  #parts = 0;

  constructor(take: (event: BackupEvent) => Promise<void> | void) {
    this.#take = take;
  }

  async next({ name, bytes }: BackupObject): Promise<void> {
    if (name === MANIFEST) return this.#begin(decodeManifest(name, bytes));
    const place = partOfName(name);
    const expected = this.#expected.get(name);
    // A part that the manifest does not name was left by an attempt that broke off.
    if (!place || (this.#manifest && !expected)) return;
    if (expected) assertIntact(expected.part, bytes);
    const reading = this.#readingOf(name, place);
    const messages = await decodePart(name, bytes);
    const part = recordOf(name, bytes);
    if (++this.#parts > MAX_OBJECTS) throw damaged(`it has more than ${MAX_OBJECTS} parts`);
    reading.parts.push(part);
    for (const message of messages) {
      reading.check.next(message);
      const content = message.part;
      if (content?.$case === 'header') {
        reading.nowMs = expected?.partition.nowMs ?? content.value.nowMs;
        await this.#take({ kind: 'begin', header: content.value, nowMs: reading.nowMs });
      } else if (content?.$case === 'rows') {
        await this.#take({ kind: 'rows', partition: place.partition, rows: content.value.rows });
      } else if (content?.$case === 'atoms') {
        await this.#take({ kind: 'atoms', partition: place.partition, atoms: content.value.atoms });
      } else if (content?.$case === 'end') {
        await this.#take({ kind: 'end', partition: place.partition, end: content.value });
      }
    }
    await this.#take({ kind: 'part', part, manifest: this.#manifest });
  }

  /** Throws unless everything that the manifest names was read, and is as it says. */
  finish(title: string): Manifest {
    const manifest = this.#manifest;
    if (!manifest) {
      throw new BackupError('BACKUP_INCOMPLETE', `${title} has no ${MANIFEST}, so the backup is not complete`, {
        hint: DAMAGE_HINT,
      });
    }
    for (const record of manifest.partitions) this.#assertRead(record);
    return manifest;
  }

  #begin(manifest: Manifest): void {
    assertFinished(manifest);
    this.#manifest = manifest;
    for (const partition of manifest.partitions) {
      for (const part of partition.parts) this.#expected.set(part.name, { part, partition });
    }
  }

  #readingOf(name: string, { partition, index }: { readonly partition: number; readonly index: number }): Reading {
    if (index === 0) {
      this.#partitions.set(partition, { check: new PartitionCheck(partition), parts: [], nowMs: undefined });
    }
    const reading = this.#partitions.get(partition);
    if (reading?.parts.length === index) return reading;
    throw new BackupError('BACKUP_INCOMPLETE', `part ${name} came without the parts before it`, {
      hint: 'in a stream the parts must be in the order of their names',
    });
  }

  #assertRead({ id, parts, nowMs, lastTicket, tasks, queues }: PartitionRecord): void {
    const reading = this.#partitions.get(id);
    parts.forEach(({ name, sha256 }, index) => {
      const found = reading?.parts[index];
      if (!found) throw missingPart(name);
      if (found.sha256 !== sha256) throw damaged(`part ${name} is not the one that the manifest names`);
    });
    const end = reading?.check.end;
    if (end?.lastTicket !== lastTicket || end.tasks !== tasks || end.queues !== queues) {
      throw damaged(`partition ${id} does not have what the manifest says`);
    }
    if (reading?.parts.length !== parts.length)
      throw damaged(`partition ${id} has parts that the manifest does not name`);
    if (reading.nowMs === nowMs) return;
    throw new BackupError(
      'UNSUPPORTED',
      `partition ${id} was taken from an earlier backup, and ${MANIFEST} came too late`,
      {
        hint: `in a stream of a backup with a base, ${MANIFEST} must come first`,
      },
    );
  }
}

const damaged = (message: string): BackupError => new BackupError('BACKUP_DAMAGED', message, { hint: DAMAGE_HINT });
