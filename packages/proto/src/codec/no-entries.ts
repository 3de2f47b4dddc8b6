/** What a map holds that a message does not have. Nothing can be added to it, so all messages share it. */
export const NO_ENTRIES: { [key: string]: never } = Object.freeze(Object.create(null));

/** More entries than any map may have. The rest of a larger map is skipped: half a million entries fit into a request. */
const MOST_ENTRIES = 1_000;

/** The map that got the last entry, and how many it got. */
let last: object = NO_ENTRIES;
let added = 0;

/** The map of a message with one more entry. It has no prototype, so that every key is an entry. */
export function withEntry<T>(entries: { [key: string]: T }, key: string, value: T): { [key: string]: T } {
  const own: { [key: string]: T } = entries === NO_ENTRIES ? Object.create(null) : entries;
  if (own !== last) {
    last = own;
    added = Object.keys(own).length;
  }
  if (++added <= MOST_ENTRIES) own[key] = value;
  return own;
}
