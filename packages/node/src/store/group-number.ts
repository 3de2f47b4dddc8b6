import type { Key } from '@taskmaster/server/domain';

/** Where the database keeps the number of its last group of writes: in the family `meta`, behind all other keys. */
export const GROUP_NUMBER_KEY = Buffer.from('\xffgroup-number', 'latin1');

/** Scans of the family `meta` end before it: it is the store's own. */
export const FIRST_RESERVED_META_KEY = '\xff' as Key;

export function encodeGroupNumber(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(number));
  return bytes;
}

/** 0 where no group was ever written. */
export const decodeGroupNumber = (bytes: Buffer | undefined | null): number =>
  bytes ? Number(bytes.readBigUInt64BE()) : 0;
