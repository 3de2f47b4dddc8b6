import type { Key } from '../domain/ids.ts';
import type { Family, KeyRange, Row, Store } from '../ports/store.ts';

const PAGE = { rows: 1000, bytes: 4 * 1024 * 1024, once: true };

/** The range of all keys of a family. */
export const WHOLE_FAMILY: KeyRange = { gte: '' as Key, lt: '\xff\xff\xff\xff' as Key };

/** Reads all rows of a range page by page. Each page shows the range at the time when it was read. */
export async function* scanAll(store: Store, family: Family, range: KeyRange): AsyncGenerator<Row> {
  let gte = range.gte;
  for (;;) {
    const rows = await store.scan(family, { gte, lt: range.lt }, PAGE);
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined) return;
    gte = `${last.key}\0` as Key;
  }
}
