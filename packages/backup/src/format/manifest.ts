import { createHash } from 'node:crypto';
import { BackupError } from './errors.ts';
import { DAMAGE_HINT, MAX_PART_BYTES, tooNew } from './part.ts';

/** The object that is written last. A place without it has no complete backup. */
export const MANIFEST = 'manifest.json';
/** The partitions of an unfinished backup, in the format of a manifest. It is removed when the backup is complete. */
export const PROGRESS = 'progress.json';

const FORMAT = 'taskmaster-backup';
const VERSION = 1;
/** Limit of a manifest in bytes. A backup of a terabyte has one of 10 MB. */
export const MAX_MANIFEST_BYTES = 256 * 1024 * 1024;

/** A manifest has at least this number of bytes for each of its values. Others cost far more memory than their size. */
const MIN_BYTES_OF_VALUE = 12;
const OPENING = new Set(Buffer.from('[{,'));

/** A part of a backup. */
export interface PartRecord {
  readonly name: string;
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
}

/** A partition in a backup. */
export interface PartitionRecord {
  readonly id: number;
  /** Id of the node that held it. */
  readonly nodeId: string;
  /** Counts the changes of its holder. */
  readonly epoch: number;
  /**
   * The holder's clock when the backup of the partition began, in ms since 1970. It is later than the clock in the parts if
   * they come from an earlier backup.
   */
  readonly nowMs: number;
  /** Ticket of the last change in it. */
  readonly lastTicket: number;
  readonly tasks: number;
  readonly queues: number;
  /** In the order in which they must be read. */
  readonly parts: readonly PartRecord[];
}

/** Where a backup comes from. */
export interface BackupOrigin {
  /** Empty for a node without a cluster. */
  readonly clusterId: string;
  /** Id of the node, if it has no cluster; otherwise empty. Such a node has a new id after each start. */
  readonly nodeId: string;
  /** Number of partitions of the cluster. */
  readonly partitionCount: number;
}

/** The contents of a backup. An unfinished backup has some of the partitions. */
export interface Manifest extends BackupOrigin {
  /** Release of the program that wrote the backup. */
  readonly release: string;
  /** When the backup began, as ISO 8601. Every change that was acknowledged before is in the backup. */
  readonly begunAt: string;
  /** When the backup ended, as ISO 8601; empty for an unfinished backup. */
  readonly finishedAt: string;
  /** By id. */
  readonly partitions: readonly PartitionRecord[];
  /** Of an unfinished backup: random id of the run that writes it. Otherwise undefined. */
  readonly run?: string;
}

const sha256 = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Describes a part for the manifest. */
export const recordOf = (name: string, bytes: Uint8Array): PartRecord => {
  return { name, bytes: bytes.byteLength, sha256: sha256(bytes) };
};

/** Whether the bytes are those of the record. */
export const isIntact = (part: PartRecord, found: Uint8Array): boolean =>
  found.byteLength === part.bytes && sha256(found) === part.sha256;

/** Throws `BackupError` if the bytes are not those of the record. */
export function assertIntact({ name, bytes, sha256: expected }: PartRecord, found: Uint8Array): void {
  if (found.byteLength !== bytes) {
    const how = found.byteLength < bytes ? 'truncated' : 'too long';
    const message = `part ${name} is ${how}: it has ${found.byteLength} bytes, not ${bytes}`;
    throw new BackupError('BACKUP_DAMAGED', message, { hint: DAMAGE_HINT });
  }
  if (sha256(found) !== expected) {
    throw new BackupError('BACKUP_DAMAGED', `part ${name} is damaged: its SHA-256 is wrong`, { hint: DAMAGE_HINT });
  }
}

/** Name of a part. In the order of their names, the parts of a partition are in the order in which they must be read. */
export function partName(partition: number, index: number): string {
  return `partition-${String(partition).padStart(5, '0')}-${String(index).padStart(5, '0')}`;
}

/** The partition and the place of a part by its name; undefined if it is not the name of a part. */
export function partOfName(name: string): { readonly partition: number; readonly index: number } | undefined {
  const [, partition, index] = /^partition-(\d{5,9})-(\d{5,9})$/.exec(name) ?? [];
  return partition === undefined ? undefined : { partition: Number(partition), index: Number(index) };
}

/** The manifest as JSON, with a checksum of itself. */
export function encodeManifest(manifest: Manifest): Buffer {
  const content = { format: FORMAT, version: VERSION, ...manifest };
  return Buffer.from(JSON.stringify({ ...content, sha256: sha256(JSON.stringify(content)) }, undefined, 1));
}

/** Reads a manifest. Throws `BackupError` if it is damaged, not a manifest, or written by a newer release. */
export function decodeManifest(name: string, bytes: Uint8Array): Manifest {
  const content = parse(name, bytes);
  const { version, sha256: expected, ...rest } = content;
  if (typeof version === 'number' && version > VERSION) throw tooNew(`${name} has version ${version} of the format`);
  const { format, ...manifest } = rest;
  if (checksumOf(name, { format, version, ...manifest }) !== expected) throw damaged(name, 'its checksum is wrong');
  if (!isManifest(manifest)) throw damaged(name, 'fields are missing or wrong');
  return manifest;
}

function parse(name: string, bytes: Uint8Array): Record<string, unknown> {
  if (valuesIn(bytes) > Math.max(1_000, bytes.byteLength / MIN_BYTES_OF_VALUE)) {
    throw damaged(name, 'it has more values than a manifest of its size');
  }
  let content: unknown;
  try {
    content = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  } catch (error) {
    throw damaged(name, 'it is not JSON', error);
  }
  if (isRecord(content) && content.format === FORMAT) return content;
  throw new BackupError('NOT_A_BACKUP', `${name} is not the manifest of a TaskMaster backup`);
}

/** An upper limit of the number of values in a text of JSON. */
function valuesIn(bytes: Uint8Array): number {
  let count = 0;
  for (const byte of bytes) if (OPENING.has(byte)) count++;
  return count;
}

function checksumOf(name: string, content: object): string {
  try {
    return sha256(JSON.stringify(content));
  } catch (error) {
    throw damaged(name, 'it is nested too deeply', error);
  }
}

const damaged = (name: string, why: string, cause?: unknown): BackupError =>
  new BackupError('BACKUP_DAMAGED', `${name} is damaged: ${why}`, { hint: DAMAGE_HINT, cause });

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

/** Names become paths, so every name must be the name of a part. */
function isManifest(value: object): value is Manifest {
  const { clusterId, nodeId, partitionCount, release, begunAt, finishedAt, partitions } = value as Partial<Manifest>;
  return (
    [clusterId, nodeId, release, begunAt, finishedAt].every(isText) &&
    isCount(partitionCount) &&
    Array.isArray(partitions) &&
    partitions.every((partition) => isPartition(partition) && partition.id < partitionCount)
  );
}

function isPartition(value: unknown): value is PartitionRecord {
  if (!isRecord(value)) return false;
  const { id, nodeId, epoch, nowMs, lastTicket, tasks, queues, parts } = value;
  return (
    isText(nodeId) &&
    [id, epoch, nowMs, lastTicket, tasks, queues].every(isCount) &&
    Array.isArray(parts) &&
    parts.length > 0 &&
    parts.every((part, index) => isPart(part) && part.name === partName(Number(id), index))
  );
}

const isPart = (value: unknown): value is PartRecord =>
  isRecord(value) &&
  isText(value.name) &&
  isCount(value.bytes) &&
  value.bytes <= MAX_PART_BYTES &&
  isText(value.sha256);
