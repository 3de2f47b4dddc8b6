import { createHash } from 'node:crypto';

/** Partitions of a cluster, unless it was created with another number. */
export const DEFAULT_PARTITIONS = 1024;

/**
 * The partition that holds a consistency group: the first four bytes of SHA-256 over the group's UTF-8 bytes, read as a
 * big-endian number, modulo the number of partitions. Fixed for ever; partition-vectors.json has test vectors for
 * implementations in other languages.
 */
export function partitionOf(group: string, partitions: number = DEFAULT_PARTITIONS): number {
  return createHash('sha256').update(group, 'utf8').digest().readUInt32BE(0) % partitions;
}
