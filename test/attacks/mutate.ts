import type { SeededRandom } from '@taskmaster/engine/testing';

/** Varints at the limits of their types. */
const VARINTS = ['00', '7f', 'ff7f', 'ffffffff07', 'ffffffff0f', 'ffffffffffffffff7f', 'ffffffffffffffffff01'].map(
  (hex) => Buffer.from(hex, 'hex'),
);

type Mutation = (bytes: Buffer, random: SeededRandom) => Buffer;

/** The bytes before and after a random place. */
function cut(bytes: Buffer, random: SeededRandom): [Buffer, Buffer] {
  const at = random.int(bytes.length + 1);
  return [bytes.subarray(0, at), bytes.subarray(at)];
}

const mutations: readonly Mutation[] = [
  // A flipped bit.
  (bytes, random) => {
    if (bytes.length === 0) return bytes;
    const changed = Buffer.from(bytes);
    const at = random.int(bytes.length);
    changed[at] = (changed[at] ?? 0) ^ (1 << random.int(8));
    return changed;
  },
  // Bytes are missing at the end.
  (bytes, random) => cut(bytes, random)[0],
  // Random bytes between others.
  (bytes, random) => {
    const [before, after] = cut(bytes, random);
    return Buffer.concat([before, random.bytes(1 + random.int(20)), after]);
  },
  // A number that is larger than the one that was there.
  (bytes, random) => {
    const [before, after] = cut(bytes, random);
    return Buffer.concat([before, random.pick(VARINTS), after.subarray(1)]);
  },
  // A part that comes several times.
  (bytes, random) => {
    const [before, after] = cut(bytes, random);
    const part = after.subarray(0, 1 + random.int(60));
    return Buffer.concat([before, ...Array<Buffer>(2 + random.int(30)).fill(part), after]);
  },
  // A part that is missing.
  (bytes, random) => {
    const [before, after] = cut(bytes, random);
    return Buffer.concat([before, after.subarray(1 + random.int(20))]);
  },
];

/** Changes bytes in one to three ways. */
export function mutate(bytes: Buffer, random: SeededRandom): Buffer {
  let mutated = bytes;
  for (let times = 1 + random.int(3); times > 0; times--) mutated = random.pick(mutations)(mutated, random);
  return mutated;
}

const varint = (value: number): number[] => {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return [...bytes, rest];
};

/** A protobuf message with random fields. Some of them are messages of random fields. */
export function randomMessage(random: SeededRandom, depth = 0): Buffer {
  const fields = Array.from({ length: random.int(6) }, () => {
    const number = 1 + random.int(8);
    if (random.chance(0.4)) return Buffer.from([...varint(number << 3), ...varint(random.int(1 << random.int(31)))]);
    const isText = depth > 3 || random.chance(0.5);
    const content = isText ? Buffer.from('a-name#jobs'.slice(random.int(11))) : randomMessage(random, depth + 1);
    return Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(content.length)]), content]);
  });
  return Buffer.concat(fields);
}
