import { latin1Of } from '@taskmaster/engine/domain';
import { type Family, visitWrites } from '@taskmaster/engine/ports';

/** The last change of a row; `value` undefined: the row is deleted. */
export interface Change {
  readonly key: Uint8Array;
  readonly value: Uint8Array | undefined;
}

/** By family and by key, as latin1: one change for each row, because the parts of a statement do not see each other. */
export type Changes = ReadonlyMap<Family, ReadonlyMap<string, Change>>;

/** The changes of batches, in order: a later change of a row replaces an earlier one. They are views into the records. */
export function changesOf(batches: readonly Uint8Array[]): Changes {
  const changes = new Map<Family, Map<string, Change>>();
  const note = (family: Family, key: Uint8Array, value: Uint8Array | undefined): void => {
    let rows = changes.get(family);
    if (rows === undefined) {
      rows = new Map();
      changes.set(family, rows);
    }
    rows.set(latin1Of(key), { key, value });
  };
  for (const records of batches) {
    visitWrites(records, { put: note, delete: (family, key) => note(family, key, undefined) });
  }
  return changes;
}
