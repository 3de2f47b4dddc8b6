import { createHash } from 'node:crypto';
import { formatQueueName, limits, parseQueueName } from '@taskmaster/proto';
import { pidBytes } from '../values/pid.ts';
import { canonicalName, type TaskOptions } from './new-task.ts';

/** Largest number of shards of a queue. A lease names them all, and a count of tasks asks for them all. */
export const MAX_SHARDS = 256;

const OF_SHARD = /^(.*)~(0|[1-9]\d{0,2})$/s;

/** Names of the shards of a queue: the shard 3 of `shop#mail` is `shop~3#mail`, a queue of the group `shop~3`. */
export class ShardNames {
  /** The name of the whole queue, as nodes would write it. */
  readonly name: string;
  readonly #group: string;
  readonly #nameInGroup: string;

  /** @throws TypeError if the name is not the name of a queue, names a shard, or leaves no room for the number of a shard. */
  constructor(name: string) {
    this.name = canonicalName(name);
    const parsed = parseQueueName(this.name);
    this.#group = parsed.group;
    this.#nameInGroup = parsed.name;
    if (parsed.name === '') throw new TypeError(`'${name}': the name of a queue must not be empty`);
    if (shardIn(this.name) !== undefined) {
      throw new TypeError(`'${name}' is the name of a shard; name the sharded queue`);
    }
    if (Buffer.byteLength(this.of(MAX_SHARDS - 1).split('#', 1)[0] ?? '') > limits.nameBytes) {
      throw new TypeError(`'${name}': its group is too long for the number of a shard`);
    }
  }

  of(shard: number): string {
    return formatQueueName({ group: `${this.#group}~${shard}`, name: this.#nameInGroup });
  }

  /** Matches the names of all shards of this queue, and of others if the name is too long for a filter. */
  get regex(): string {
    const whole = `^${literal(this.#group)}~[0-9]+#${literal(this.#nameInGroup)}$`;
    return Buffer.byteLength(whole) <= limits.regexBytes ? whole : '~[0-9]+#';
  }

  /**
   * The options of a task of a shard: its dead-letter queue is of the shard, too. @throws TypeError if it is of another group.
   */
  optionsOf<Options extends TaskOptions>(shard: number, options: Options): Options {
    const { retry } = options;
    if (retry?.deadLetterQueue === undefined) return options;
    return { ...options, retry: { ...retry, deadLetterQueue: this.besides(retry.deadLetterQueue, shard) } };
  }

  /**
   * The shard of another sharded queue that is in one group with a shard of this one. @throws TypeError if their groups
   * differ.
   */
  besides(other: string, shard: number): string {
    const { group, name } = parseQueueName(canonicalName(other));
    if (group === this.#group) return formatQueueName({ group: `${group}~${shard}`, name });
    throw new TypeError(`'${other}' is not of the group '${this.#group}' of the sharded queue`);
  }
}

/** Matches this text alone in a filter. */
const literal = (text: string): string => text.replace(/[!-/:-@[-`{-~]/g, '\\$&');

/** What the name of a shard says. Undefined: it is another name. */
export function shardIn(queue: string): { readonly name: string; readonly shard: number } | undefined {
  const { group, name } = parseQueueName(queue);
  const [, whole, digits] = OF_SHARD.exec(group) ?? [];
  const shard = Number(digits);
  if (whole === undefined || shard >= MAX_SHARDS) return undefined;
  return { name: formatQueueName({ group: whole, name }), shard };
}

/**
 * The shard of a PID, or of a key: the jump hash of the first 8 bytes of its SHA-256, read as a big-endian number. Fixed for
 * ever, because all producers must agree.
 */
export function shardOfPid(pid: Uint8Array, shards: number): number {
  return jumpHash(createHash('sha256').update(pid).digest().readBigUInt64BE(), shards);
}

/**
 * What decides the shard of a task: its order key, so that the tasks of one are in one shard, or what identifies it: its key, or
 * its PID. Undefined: the node assigns a PID.
 */
export function identityOf({
  key,
  pid,
  orderKey,
}: Pick<TaskOptions, 'key' | 'pid' | 'orderKey'>): Uint8Array | undefined {
  const identity = orderKey ?? key ?? pid;
  return identity === undefined ? undefined : pidBytes(identity);
}

/** @throws TypeError unless it is a number of shards. */
export function numberOfShards(shards: number): number {
  if (Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS) return shards;
  throw new TypeError(`shards: ${shards} is not a whole number from 1 to ${MAX_SHARDS}`);
}

/**
 * The bucket of a key among this number of buckets, from 0 (Lamping and Veach, A Fast, Minimal Memory, Consistent Hash
 * Algorithm). With one bucket more, only the keys that go to the new bucket move.
 * @param key 64 bits.
 */
export function jumpHash(key: bigint, buckets: number): number {
  let state = key;
  let bucket = -1;
  for (let next = 0; next < buckets; ) {
    bucket = next;
    state = BigInt.asUintN(64, state * 2_862_933_555_777_941_757n + 1n);
    next = Math.floor((bucket + 1) * (2 ** 31 / (Number(state >> 33n) + 1)));
  }
  return bucket;
}
