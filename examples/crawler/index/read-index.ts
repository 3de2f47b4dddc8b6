import type { CrawlQueues, CrawlShard } from '../queues.ts';
import { type IndexEntry, type Place, readSegments } from './segment.ts';

/** The index as the workers have written it, compared with the queues `indexed`. */
export interface StoredIndex {
  /** Entries at the places that the queues `indexed` name, by URL. */
  readonly pages: ReadonlyMap<string, IndexEntry>;
  /** Number of tasks in the queues `indexed`. */
  readonly indexed: number;
  /** URLs in `indexed` without an entry at that place. */
  readonly dangling: number;
  /** URLs that several updates have committed, by the notes of the workers. */
  readonly double: readonly string[];
  /** Entries that were written but not committed, because their worker died or lost its lease before. */
  readonly uncommitted: number;
}

/** Number of PIDs in one request. */
const CHUNK = 1_000;

/** Reads the entries of all segments that the table of contents, the queues `indexed`, names. */
export async function readIndex(dir: string, queues: CrawlQueues): Promise<StoredIndex> {
  const written = new Map<string, { readonly entry: IndexEntry; readonly place: Place }[]>();
  const notes = new Map<string, string[]>();
  for await (const { line, place } of readSegments(dir)) {
    if (line.kind === 'entry') append(written, line.url, { entry: line, place });
    else append(notes, line.url, place.segment);
  }
  const pages = new Map<string, IndexEntry>();
  const double: string[] = [];
  let uncommitted = 0;
  let size = 0;
  const urlsOf = Map.groupBy(written.keys(), (url) => queues.of(url));
  for (const shard of queues.shards) {
    const stats = await shard.indexed.stats();
    size += stats.available + stats.leased + stats.delayed;
    for await (const [url, place] of placesOf(urlsOf.get(shard) ?? [], shard)) {
      const entries = written.get(url) ?? [];
      const counts = entries.find((one) => place !== undefined && isSame(one.place, place));
      uncommitted += entries.length - (counts === undefined ? 0 : 1);
      if (counts !== undefined) pages.set(url, counts.entry);
      // A commit that a worker noted must be the one in the table of contents, and the only one.
      const committedIn = notes.get(url) ?? [];
      if (committedIn.length > 1 || committedIn.some((segment) => segment !== place?.segment)) double.push(url);
    }
  }
  return { pages, indexed: size, dangling: size - pages.size, double, uncommitted };
}

/** The place of each page of a shard in the table of contents. Undefined if the page is not in it. */
async function* placesOf(
  urls: readonly string[],
  { indexed }: CrawlShard,
): AsyncGenerator<readonly [url: string, place: Place | undefined]> {
  for (let at = 0; at < urls.length; at += CHUNK) {
    const chunk = urls.slice(at, at + CHUNK);
    const named = await indexed.get(chunk);
    for (const [offset, url] of chunk.entries()) {
      const task = named[offset];
      yield [url, task === undefined || task.state === 'not-found' ? undefined : task.data.place];
    }
  }
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const values = map.get(key);
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}

function isSame(a: Place, b: Place): boolean {
  return a.segment === b.segment && a.offset === b.offset && a.length === b.length;
}
