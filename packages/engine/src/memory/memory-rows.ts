import { OrderedMap } from '@js-sdsl/ordered-map';
import { latin1Of } from '../domain/bytes.ts';
import type { Key } from '../domain/ids.ts';
import { Family, familyNames, type KeyRange, type Row, type ScanLimit } from '../ports/store.ts';
import type { WriteBatch } from '../ports/write-batch.ts';

/** A row after a change; `value` undefined: the row is deleted. */
export interface RowChange {
  readonly family: Family;
  readonly key: Key;
  readonly value: Uint8Array | undefined;
}

export function changesOf(batch: WriteBatch): RowChange[] {
  const changes: RowChange[] = [];
  const add = (family: Family, key: Uint8Array, value: Uint8Array | undefined): void => {
    changes.push({ family, key: latin1Of(key) as Key, value });
  };
  batch.visit({ put: add, delete: (family, key) => add(family, key, undefined) });
  return changes;
}

/** The rows of all families in memory, in key order. */
export class MemoryRows {
  readonly #families = familyNames.map(() => new OrderedMap<Key, Uint8Array>());
  #bytes = 0;

  /** Sum of key and value bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get(family: Family, key: Key): Uint8Array | undefined {
    return this.#rows(family).getElementByKey(key);
  }

  /** Applies the changes in order. Returns the changes that undo them. */
  apply(changes: readonly RowChange[]): RowChange[] {
    const undo: RowChange[] = [];
    for (const { family, key, value } of changes) {
      const rows = this.#rows(family);
      const before = rows.getElementByKey(key);
      undo.push({ family, key, value: before });
      if (before !== undefined) this.#bytes -= key.length + before.byteLength;
      if (value === undefined) {
        if (before !== undefined) rows.eraseElementByKey(key);
      } else {
        rows.setElement(key, value);
        this.#bytes += key.length + value.byteLength;
      }
    }
    return undo.reverse();
  }

  /** Rows in key order. The values are not copied. */
  scan(family: Family, range: KeyRange, limit: ScanLimit): Row[] {
    const found: Row[] = [];
    let bytes = 0;
    const rows = this.#rows(family);
    const end = rows.end();
    for (const at = rows.lowerBound(range.gte); !at.equals(end); at.next()) {
      const [key, value] = at.pointer;
      if (key >= range.lt || found.length >= limit.rows) break;
      bytes += key.length + value.byteLength;
      if (found.length > 0 && bytes > limit.bytes) break;
      found.push({ key, value });
    }
    return found;
  }

  /** All rows of a family. */
  all(family: Family): Row[] {
    return Array.from(this.#rows(family), ([key, value]) => ({ key, value }));
  }

  #rows(family: Family): OrderedMap<Key, Uint8Array> {
    const rows = this.#families[family];
    if (rows === undefined) throw new TypeError(`no family has the number ${family}; there are ${Object.keys(Family)}`);
    return rows;
  }
}
