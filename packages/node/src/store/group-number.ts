/** Key of the number of the last group of writes: in the family `meta`, behind all other keys. */
export const GROUP_NUMBER_KEY = Buffer.from('\xffgroup-number', 'latin1');

export function encodeGroupNumber(number: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(number));
  return bytes;
}

/** 0 if no group was ever written. */
export const decodeGroupNumber = (bytes: Buffer | undefined | null): number =>
  bytes ? Number(bytes.readBigUInt64BE()) : 0;
