import type { Instant, Pid } from '../../domain/ids.ts';
import { SignalBox } from '../../domain/signal-box.ts';
import { type RecordDraft, type RecordStore, signalRecords } from '../../records/record-store.ts';
import { recordState } from '../attempts.ts';

/** Where a box of signals is kept: a record of a group. */
export interface BoxPlace {
  readonly records: RecordStore;
  readonly group: string;
  readonly pid: Pid;
}

interface OpenBox {
  readonly place: BoxPlace;
  readonly box: SignalBox;
  /** Until when the record is kept. Undefined: for as long as its task. */
  readonly until: Instant | undefined;
  /** What was there before the draft, in bytes. */
  readonly stored: number;
}

/** What a draft adds to the signals that came before their tasks, in bytes. */
const earlyBytesOf = (open: OpenBox | undefined): number =>
  open?.place.records === signalRecords ? open.box.bytes - open.stored : 0;

/** A name of a place, with what it stood for before a change. */
type Earlier = readonly [name: string, open: OpenBox | undefined];

/**
 * The boxes of signals that a draft has changed. A box is read and written whole, so each is written once, behind the last change
 * of the draft: 10,000 signals to one task would write gigabytes otherwise.
 */
export class OpenBoxes {
  readonly #open = new Map<string, OpenBox>();
  /** In the order of the changes, so that a roll-back costs what it drops. */
  readonly #earlier: Earlier[] = [];
  /** What is to be written by now, in bytes, also for what was rolled back. */
  bytes = 0;
  /** What the draft adds to the signals that came before their tasks, in bytes, without the boxes that it removes. */
  earlyBytes = 0;

  /** The number of changes so far, for `rollBack`. */
  get changes(): number {
    return this.#earlier.length;
  }

  /** The box as the draft has left it. Undefined: there is none, or it must be read first. */
  get(draft: RecordDraft, place: BoxPlace): SignalBox | undefined {
    const open = this.#open.get(nameOf(place));
    if (open !== undefined) return open.box;
    const record = place.records.find(draft, place.group, place.pid);
    const data = record && place.records.dataOf(draft, record);
    return data && SignalBox.decode(data);
  }

  set(draft: RecordDraft, place: BoxPlace, box: SignalBox, until?: Instant): void {
    const name = nameOf(place);
    const before = this.#open.get(name);
    this.bytes += box.bytes - (before?.box.bytes ?? 0);
    // What the last write needs is read together with the rest.
    const found = before === undefined ? place.records.find(draft, place.group, place.pid) : undefined;
    const stored = before?.stored ?? found?.task.state.dataBytes ?? 0;
    this.#earlier.push([name, before]);
    this.#put(name, { place, box, until, stored });
  }

  /** Removes the box, with its record. */
  remove(draft: RecordDraft, place: BoxPlace): void {
    place.records.remove(draft, place.group, place.pid);
    const name = nameOf(place);
    const before = this.#open.get(name);
    if (before === undefined) return;
    this.#earlier.push([name, before]);
    this.#put(name, undefined);
  }

  /** Drops the changes after this number of them. */
  rollBack(changes: number): void {
    while (this.#earlier.length > changes) {
      const [name, open] = this.#earlier.pop() as Earlier;
      this.#put(name, open);
    }
  }

  write(draft: RecordDraft, now: Instant): void {
    for (const { place, box, until } of this.#open.values()) {
      const data = box.encode();
      place.records.put(draft, place.group, place.pid, recordState(data, now, until), data);
    }
  }

  #put(name: string, open: OpenBox | undefined): void {
    this.earlyBytes += earlyBytesOf(open) - earlyBytesOf(this.#open.get(name));
    if (open === undefined) this.#open.delete(name);
    else this.#open.set(name, open);
  }
}

/** One draft is about one group. */
const nameOf = ({ records, pid }: BoxPlace): string => `${records.name}\0${pid}`;
