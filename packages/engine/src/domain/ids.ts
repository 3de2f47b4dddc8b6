declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

/** Milliseconds since 1970, by the clock of the engine, which never goes back. */
export type Instant = Branded<number, 'Instant'>;

/**
 * Sequence number of an ApplyAtom in the commit log of its partition. It grows strictly and is never reused; see `newPartition`.
 */
export type Ticket = Branded<number, 'Ticket'>;

/** Number of a partition, from 0. */
export type PartitionId = Branded<number, 'PartitionId'>;

/**
 * When a partition began empty, or came from a backup, by the clock of the node where it did: in ms since 1970. It goes with the
 * partition, and tells it from earlier lives whose tickets may be larger, if that clock was behind. 0: the partition began with a
 * node without a cluster, or with an earlier build.
 */
export type PartitionLife = number;

/** Id of one generation of a queue (the paper, 5.2). It is unique within its partition and never reused. */
export type QueueId = Branded<number, 'QueueId'>;

/**
 * Priority and identity of a task: 1 to 4096 bytes as a latin1 string, one character for each byte. So comparing strings compares
 * bytes, several times faster than comparing Buffers.
 */
export type Pid = Branded<string, 'Pid'>;

/** Proves a lease. It is the ticket of the atom that granted the lease, so it grows with every lease of a PID. */
export type LeaseToken = Branded<number, 'LeaseToken'>;

/** The key of a row: bytes as a latin1 string. Rows are ordered by it. */
export type Key = Branded<string, 'Key'>;
