declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

/** Milliseconds since 1970 on the engine's clock, which never goes back. */
export type Instant = Branded<number, 'Instant'>;

/** Sequence number of an ApplyAtom in its partition's commit log: strictly increasing, never reused; see `newPartition`. */
export type Ticket = Branded<number, 'Ticket'>;

/** Number of a partition, from 0. */
export type PartitionId = Branded<number, 'PartitionId'>;

/** Identity of one generation of a queue (the paper, 5.2), unique within its partition and never reused. */
export type QueueId = Branded<number, 'QueueId'>;

/**
 * Priority and identity of a task, 1 to 4096 bytes held as a latin1 string: one character a byte, so that comparing
 * strings compares bytes, several times faster than comparing Buffers.
 */
export type Pid = Branded<string, 'Pid'>;

/** Proves a lease; the ticket of the atom that granted it, so it grows with every lease, across lives of a PID too. */
export type LeaseToken = Branded<number, 'LeaseToken'>;

/** A row key: bytes held as a latin1 string, in the order of the rows. */
export type Key = Branded<string, 'Key'>;
