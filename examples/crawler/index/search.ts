import type { IndexEntry } from './segment.ts';
import { wordsOf } from './words.ts';

export interface Hit {
  readonly url: string;
  readonly title: string;
  readonly score: number;
}

/** The usual constants of Okapi BM25. */
const K1 = 1.2;
const B = 0.75;
/** Weight of a word in the title. A word in the text has 1. */
const TITLE_WEIGHT = 5;

interface Posting {
  readonly page: number;
  readonly count: number;
}

/** An inverted index: for each word, the pages that have it. */
export class SearchIndex {
  readonly #pages: { readonly url: string; readonly title: string; readonly length: number }[] = [];
  readonly #postings = new Map<string, Posting[]>();
  #totalLength = 0;

  get pages(): number {
    return this.#pages.length;
  }

  get words(): number {
    return this.#postings.size;
  }

  titleOf(url: string): string | undefined {
    return this.#pages.find((page) => page.url === url)?.title;
  }

  add({ url, title, words }: IndexEntry): void {
    const page = this.#pages.length;
    const counts = new Map(Object.entries(words));
    for (const word of wordsOf(title)) counts.set(word, (counts.get(word) ?? 0) + TITLE_WEIGHT);
    let length = 0;
    for (const [word, count] of counts) {
      length += count;
      const postings = this.#postings.get(word);
      if (postings === undefined) this.#postings.set(word, [{ page, count }]);
      else postings.push({ page, count });
    }
    this.#pages.push({ url, title, length });
    this.#totalLength += length;
  }

  /** The best matches, best first. */
  search(query: string, limit: number): Hit[] {
    const words = new Set(wordsOf(query));
    const matches = new Map<number, { score: number; words: number }>();
    const meanLength = this.#totalLength / Math.max(1, this.#pages.length);
    for (const word of words) {
      const postings = this.#postings.get(word) ?? [];
      const rarity = Math.log(1 + (this.#pages.length - postings.length + 0.5) / (postings.length + 0.5));
      for (const { page, count } of postings) {
        const length = this.#pages[page]?.length ?? meanLength;
        const weight = (count * (K1 + 1)) / (count + K1 * (1 - B + (B * length) / meanLength));
        const match = matches.get(page) ?? { score: 0, words: 0 };
        matches.set(page, { score: match.score + rarity * weight, words: match.words + 1 });
      }
    }
    // A page that has all words of the query must come before a page that has one of them many times.
    const scores = [...matches].map(([page, match]) => [page, match.score * (match.words / words.size) ** 2] as const);
    const ranked = scores.sort(([, a], [, b]) => b - a).slice(0, limit);
    return ranked.flatMap(([page, score]) => {
      const found = this.#pages[page];
      return found === undefined ? [] : [{ url: found.url, title: found.title, score }];
    });
  }
}
