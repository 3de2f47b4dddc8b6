import { createHash } from 'node:crypto';
import { limits } from '@taskmaster/proto';
import { ByteReader, ByteWriter, latin1Of } from './bytes.ts';
import type { Pid } from './ids.ts';

// The signals of a task that waits: a record in a reserved queue of its group, whose payload this is.

const VERSION = 1;
const ENDS = ['none', 'completed', 'dead-lettered', 'cancelled', 'removed'] as const;
/** Bytes of an id here: a part of its hash, which is enough to tell 10,000 apart. */
const ID_BYTES = 8;

const writer = new ByteWriter();

/** How a child has ended. */
export type ChildEnd = Exclude<(typeof ENDS)[number], 'none'>;

/** By what a child is known that has ended. */
export interface ChildName {
  readonly queue: string;
  readonly pid: Pid;
  /** Its key. A child with a key is told by it: enqueued again, it may get another PID. Not kept. */
  readonly key?: string | undefined;
}

interface EndedChild extends ChildName {
  readonly end: ChildEnd;
}

/** What a signal says. */
export interface KeptSignal {
  /** The id of the signal. Of a child: empty. */
  readonly id: string;
  /** Set: the signal is the end of this child. */
  readonly child: EndedChild | undefined;
  /** The data of the signal, or the result of the child. */
  readonly data: Uint8Array;
}

/** What has come for a task, in order. The boxes of a task share it, each up to where it was. */
interface Come {
  /** Parts of the hashes of the ids. */
  readonly ids: string[];
  /** The place of each of them. */
  readonly places: Map<string, number>;
  readonly kept: KeptSignal[];
}

interface Counts {
  /** Signals without an id. */
  readonly bare: number;
  /** How many came with an id. */
  readonly ids: number;
  readonly kept: number;
  readonly dropped: number;
  readonly bytes: number;
}

/**
 * The signals of a task. A box never changes: `with` makes another one. Both share what came before, because an update may end
 * thousands of tasks with the same parents, and a box has up to 10,000 ids. So only the latest box goes on, or an earlier one
 * to which a draft was rolled back. Later boxes are invalid then.
 */
export class SignalBox {
  static readonly EMPTY = new SignalBox(undefined, { bare: 0, ids: 0, kept: 0, dropped: 0, bytes: 0 });
  readonly #come: Come | undefined;
  readonly #counts: Counts;

  constructor(come: Come | undefined, counts: Counts) {
    this.#come = come;
    this.#counts = counts;
  }

  /** How many signals came. */
  get count(): number {
    return this.#counts.bare + this.#counts.ids;
  }

  /** Those that say something, in order of arrival. */
  get kept(): readonly KeptSignal[] {
    return this.#come?.kept.slice(0, this.#counts.kept) ?? [];
  }

  get keptCount(): number {
    return this.#counts.kept;
  }

  /** How many of these are not kept, because the box is full. */
  get dropped(): number {
    return this.#counts.dropped;
  }

  /** What it is when it is written, but for the numbers in it. */
  get bytes(): number {
    return this.#counts.bytes;
  }

  /** Whether the end of the child has counted. */
  hasCounted(child: ChildName): boolean {
    return this.#has(idPart({ id: '', child }));
  }

  /**
   * The box with another signal. Undefined: it has come before.
   * @param isKept whether what it says is kept
   */
  with(signal: KeptSignal, isKept: boolean): SignalBox | undefined {
    const part = isBareSignal(signal) ? undefined : partOf(signal);
    if (part !== undefined && this.#has(part)) return undefined;
    const counts = this.#counts;
    const come = this.#goOn();
    let { bare, ids, kept, dropped, bytes } = counts;
    if (part === undefined) bare++;
    else {
      come.places.set(part, ids++);
      come.ids.push(part);
      bytes += part.length;
    }
    if (isKept && bytes + keptBytes(signal) <= limits.keptSignalsBytes) {
      come.kept.push(signal);
      kept++;
      bytes += keptBytes(signal);
    } else if (isKept) dropped++;
    return new SignalBox(come, { bare, ids, kept, dropped, bytes });
  }

  /** The signals of both boxes. Of two with one id, that of this one. */
  merged(second: SignalBox): SignalBox {
    const come: Come = { ids: [], places: new Map(), kept: [] };
    const parts = [...this.#ids(), ...second.#ids()];
    for (const part of parts) {
      if (come.places.has(part)) continue;
      come.places.set(part, come.ids.length);
      come.ids.push(part);
    }
    const isNew = (signal: KeptSignal): boolean => isBareSignal(signal) || !this.#has(idPart(signal));
    come.kept.push(...this.kept, ...second.kept.filter(isNew));
    return boxOf(come, this.#counts.bare + second.#counts.bare, this.dropped + second.dropped);
  }

  encode(): Uint8Array {
    writer.byte(VERSION);
    writer.number(this.#counts.bare);
    writer.latin1(this.#ids().join(''));
    writer.number(this.dropped);
    writer.number(this.keptCount);
    for (const { id, child, data } of this.kept) {
      writer.byte(ENDS.indexOf(child?.end ?? 'none'));
      if (child === undefined) writer.utf8(id);
      else {
        writer.utf8(child.queue);
        writer.latin1(child.pid);
      }
      writer.blob(data);
    }
    return new Uint8Array(writer.view());
  }

  static decode(bytes: Uint8Array): SignalBox {
    const from = new ByteReader(bytes);
    from.version(VERSION, 'box of signals');
    const bare = from.number();
    const ids = from.latin1();
    const dropped = from.number();
    const come: Come = { ids: [], places: new Map(), kept: [] };
    for (let at = 0; at < ids.length; at += ID_BYTES) {
      const part = ids.slice(at, at + ID_BYTES);
      come.places.set(part, come.ids.length);
      come.ids.push(part);
    }
    for (let left = from.number(); left > 0; left--) {
      const end = ENDS[from.byte()];
      const isChild = end !== undefined && end !== 'none';
      const id = isChild ? '' : from.utf8();
      const child = isChild ? { queue: from.utf8(), pid: from.latin1() as Pid, end } : undefined;
      // A copy: the bytes may be a view of a larger buffer.
      come.kept.push({ id, child, data: new Uint8Array(from.blob()) });
    }
    return boxOf(come, bare, dropped);
  }

  #ids(): readonly string[] {
    return this.#come?.ids.slice(0, this.#counts.ids) ?? [];
  }

  #has(part: string): boolean {
    const place = this.#come?.places.get(part);
    return place !== undefined && place < this.#counts.ids;
  }

  /** What the next box shares with this one, without what was rolled back. */
  #goOn(): Come {
    const come = this.#come ?? { ids: [], places: new Map(), kept: [] };
    while (come.ids.length > this.#counts.ids) come.places.delete(come.ids.pop() ?? '');
    come.kept.length = this.#counts.kept;
    return come;
  }
}

function boxOf(come: Come, bare: number, dropped: number): SignalBox {
  const { ids, kept } = come;
  const bytes = kept.reduce((sum, signal) => sum + keptBytes(signal), ids.length * ID_BYTES);
  return new SignalBox(come, { bare, ids: ids.length, kept: kept.length, dropped, bytes });
}

/** What a box shows. */
export type ShownSignals = Pick<SignalBox, 'kept' | 'keptCount' | 'dropped' | 'bytes'>;

/** Upper limit for what the kept signals of a task take of a reply. */
export const shownBytes = (box: ShownSignals, group: string): number =>
  box.bytes + box.keptCount * (SHOWN_BYTES + Buffer.byteLength(group));

/** Upper limit for the tags and the lengths of one of them, in bytes. */
const SHOWN_BYTES = 32;

/** What a signal takes of a box. */
const keptBytes = ({ id, child, data }: KeptSignal): number =>
  data.byteLength + (child === undefined ? Buffer.byteLength(id) : Buffer.byteLength(child.queue) + child.pid.length);

const isBareSignal = ({ id, child }: KeptSignal): boolean => id === '' && child === undefined;

/** The last signal whose part was asked for: the end of a child goes to up to 100 parents. */
let latest: { readonly signal: KeptSignal; readonly part: string } | undefined;

function partOf(signal: KeptSignal): string {
  if (latest?.signal !== signal) latest = { signal, part: idPart(signal) };
  return latest.part;
}

function idPart({ id, child }: { readonly id: string; readonly child: ChildName | undefined }): string {
  const hash = createHash('sha256');
  if (child === undefined) hash.update('s').update(id, 'utf8');
  else if (child.key === undefined)
    hash.update('c').update(child.queue, 'utf8').update('\0').update(child.pid, 'latin1');
  else hash.update('k').update(child.queue, 'utf8').update('\0').update(child.key, 'utf8');
  return latin1Of(hash.digest().subarray(0, ID_BYTES));
}
