import type { CrawlQueues } from '../queues.ts';
import { type IndexEntry, type Place, readSegments } from './segment.ts';

/** What the index workers have written, and what of it counts. */
export interface StoredIndex {
  /** The entries that `crawler#indexed` names, by URL. */
  readonly pages: ReadonlyMap<string, IndexEntry>;
  /** Places in `crawler#indexed`. */
  readonly indexed: number;
  /** URLs in `crawler#indexed` without an entry at the place named there. */
  readonly dangling: number;
  /** URLs that more than one update has committed, as the workers that did so have noted. */
  readonly double: readonly string[];
  /** Entries that were written and never committed, because their writer died or lost its lease in between. */
  readonly uncommitted: number;
}

/** PIDs asked for at once. */
const CHUNK = 1_000;

/** Reads the index: the segments' entries, as far as the table of contents names them. */
export async function readIndex(dir: string, { indexed }: CrawlQueues): Promise<StoredIndex> {
  const written = new Map<string, { readonly entry: IndexEntry; readonly place: Place }[]>();
  const notes = new Map<string, string[]>();
  for await (const { line, place } of readSegments(dir)) {
    if (line.kind === 'entry') append(written, line.url, { entry: line, place });
    else append(notes, line.url, place.segment);
  }
  const pages = new Map<string, IndexEntry>();
  const double: string[] = [];
  let uncommitted = 0;
  const urls = [...written.keys()];
  for (let at = 0; at < urls.length; at += CHUNK) {
    const chunk = urls.slice(at, at + CHUNK);
    const named = await indexed.get(chunk);
    for (const [offset, url] of chunk.entries()) {
      const task = named[offset];
      const place = task === undefined || task.state === 'not-found' ? undefined : task.data.place;
      const entries = written.get(url) ?? [];
      const counts = entries.find((one) => place !== undefined && isSame(one.place, place));
      uncommitted += entries.length - (counts === undefined ? 0 : 1);
      if (counts !== undefined) pages.set(url, counts.entry);
      // A commit that a worker was told of must be the one in the table of contents, and the only one.
      const committedIn = notes.get(url) ?? [];
      if (committedIn.length > 1 || committedIn.some((segment) => segment !== place?.segment)) double.push(url);
    }
  }
  const { available, leased, delayed } = await indexed.stats();
  const size = available + leased + delayed;
  return { pages, indexed: size, dangling: size - pages.size, double, uncommitted };
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}

function isSame(a: Place, b: Place): boolean {
  return a.segment === b.segment && a.offset === b.offset && a.length === b.length;
}
