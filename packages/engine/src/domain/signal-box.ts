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

export interface SignalBox {
  /** Signals without an id. */
  readonly bare: number;
  /** Parts of the hashes of the others, one behind the other. */
  readonly ids: string;
  /** Those that say something, in order of arrival. */
  readonly kept: readonly KeptSignal[];
  /** How many of these are not kept, because the box is full. */
  readonly dropped: number;
  /** What it is when it is written, but for the numbers in it. */
  readonly bytes: number;
}

export const EMPTY_BOX: SignalBox = { bare: 0, ids: '', kept: [], dropped: 0, bytes: 0 };

/** How many signals came. */
export const signalsIn = ({ bare, ids }: SignalBox): number => bare + ids.length / ID_BYTES;

/**
 * The box with another signal. Undefined: it has come before.
 * @param isKept whether what it says is kept
 */
export function withSignal(box: SignalBox, signal: KeptSignal, isKept: boolean): SignalBox | undefined {
  const isBare = isBareSignal(signal);
  const part = isBare ? '' : idPart(signal);
  if (!isBare && has(box.ids, part)) return undefined;
  const bytes = box.bytes + part.length;
  const counted = { ...box, bare: box.bare + (isBare ? 1 : 0), ids: box.ids + part, bytes };
  if (!isKept) return counted;
  const more = keptBytes(signal);
  return bytes + more > limits.keptSignalsBytes
    ? { ...counted, dropped: box.dropped + 1 }
    : { ...counted, kept: [...box.kept, signal], bytes: bytes + more };
}

const bytesOf = (ids: string, kept: readonly KeptSignal[]): number =>
  kept.reduce((sum, signal) => sum + keptBytes(signal), ids.length);

/** Upper limit for what the kept signals of a task take of a reply. */
export const shownBytes = (box: SignalBox, group: string): number =>
  box.bytes + box.kept.length * (SHOWN_BYTES + Buffer.byteLength(group));

/** Upper limit for the tags and the lengths of one of them, in bytes. */
const SHOWN_BYTES = 32;

/** What a signal takes of a box. */
const keptBytes = ({ id, child, data }: KeptSignal): number =>
  data.byteLength + (child === undefined ? Buffer.byteLength(id) : Buffer.byteLength(child.queue) + child.pid.length);

/** Whether the end of the child has counted. */
export const hasCounted = ({ ids }: SignalBox, child: ChildName): boolean => has(ids, idPart({ id: '', child }));

/** The signals of both boxes. Of two with one id, that of the first box. */
export function merged(first: SignalBox, second: SignalBox): SignalBox {
  let { ids } = first;
  for (let at = 0; at < second.ids.length; at += ID_BYTES) {
    const part = second.ids.slice(at, at + ID_BYTES);
    if (!has(first.ids, part)) ids += part;
  }
  const isNew = (signal: KeptSignal): boolean => isBareSignal(signal) || !has(first.ids, idPart(signal));
  const kept = [...first.kept, ...second.kept.filter(isNew)];
  return {
    bare: first.bare + second.bare,
    ids,
    kept,
    dropped: first.dropped + second.dropped,
    bytes: bytesOf(ids, kept),
  };
}

const isBareSignal = ({ id, child }: KeptSignal): boolean => id === '' && child === undefined;

function idPart({ id, child }: { readonly id: string; readonly child: ChildName | undefined }): string {
  const hash = createHash('sha256');
  if (child === undefined) hash.update('s').update(id, 'utf8');
  else if (child.key === undefined)
    hash.update('c').update(child.queue, 'utf8').update('\0').update(child.pid, 'latin1');
  else hash.update('k').update(child.queue, 'utf8').update('\0').update(child.key, 'utf8');
  return latin1Of(hash.digest().subarray(0, ID_BYTES));
}

function has(ids: string, part: string): boolean {
  for (let at = ids.indexOf(part); at >= 0; at = ids.indexOf(part, at + 1)) if (at % ID_BYTES === 0) return true;
  return false;
}

export function encodeBox({ bare, ids, kept, dropped }: SignalBox): Uint8Array {
  writer.byte(VERSION);
  writer.number(bare);
  writer.latin1(ids);
  writer.number(dropped);
  writer.number(kept.length);
  for (const { id, child, data } of kept) {
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

export function decodeBox(bytes: Uint8Array): SignalBox {
  const from = new ByteReader(bytes);
  from.version(VERSION, 'box of signals');
  const bare = from.number();
  const ids = from.latin1();
  const dropped = from.number();
  const kept: KeptSignal[] = [];
  for (let left = from.number(); left > 0; left--) {
    const end = ENDS[from.byte()];
    const isChild = end !== undefined && end !== 'none';
    const id = isChild ? '' : from.utf8();
    const child = isChild ? { queue: from.utf8(), pid: from.latin1() as Pid, end } : undefined;
    // A copy: the bytes may be a view of a larger buffer.
    kept.push({ id, child, data: Buffer.from(latin1Of(from.blob()), 'latin1') });
  }
  return { bare, ids, kept, dropped, bytes: bytesOf(ids, kept) };
}
