import type { LoadRandom } from './random.ts';

/*
 * A payload is `run:number:size:` and a filler that depends on the number. So a reader finds out which task it has, and
 * whether each byte is right.
 */

/** Smallest payload: the text before the filler must fit. */
export const MIN_PAYLOAD_BYTES = 48;

const FILLER_BYTES = 1 << 16;
/** Offsets of the filler. A prime, so that neighbours have different ones. */
const OFFSETS = 4_093;

/** Without a pattern of its own, so that a compressing disk does not make the load smaller. */
function fillerOf(random: LoadRandom): Buffer {
  const filler = Buffer.alloc(FILLER_BYTES);
  for (let at = 0; at < FILLER_BYTES; at += 4) filler.writeUInt32LE(random.between(0, 0xffff_ffff), at);
  return filler;
}

/** Makes and reads the payloads of one run. */
export class Payloads {
  readonly #run: string;
  readonly #filler: Buffer;

  /** @param run tells the tasks of this run from those of others. At most 16 letters and digits. */
  constructor(run: string, random: LoadRandom) {
    this.#run = run;
    this.#filler = fillerOf(random);
  }

  make(number: number, bytes: number): Buffer {
    const payload = Buffer.allocUnsafe(bytes);
    const head = payload.write(`${this.#run}:${number}:${bytes}:`, 'latin1');
    this.#fill(number, payload.subarray(head), (part, filler) => void part.set(filler));
    return payload;
  }

  /** The number of a task. Undefined: this run did not make it, or its bytes have changed. */
  read(bytes: Uint8Array): number | undefined {
    const payload = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const [head, run, number, size] =
      /^([0-9a-z]+):(\d+):(\d+):/.exec(payload.toString('latin1', 0, MIN_PAYLOAD_BYTES)) ?? [];
    if (head === undefined || run !== this.#run || Number(size) !== payload.byteLength) return undefined;
    let isSame = true;
    this.#fill(Number(number), payload.subarray(head.length), (part, filler) => {
      isSame &&= part.equals(filler);
    });
    return isSame ? Number(number) : undefined;
  }

  #fill(number: number, rest: Buffer, each: (part: Buffer, filler: Buffer) => void): void {
    const offset = number % OFFSETS;
    const longest = FILLER_BYTES - OFFSETS;
    for (let at = 0; at < rest.byteLength; at += longest) {
      const part = rest.subarray(at, at + longest);
      each(part, this.#filler.subarray(offset, offset + part.byteLength));
    }
  }
}
