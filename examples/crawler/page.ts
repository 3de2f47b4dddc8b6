import { marked } from 'marked';
import { parse } from 'node-html-parser';

/** A document as it was fetched. */
export interface RawPage {
  readonly url: string;
  readonly contentType: string;
  readonly body: string;
}

/** Title, text and links of a page. */
export interface ParsedPage {
  readonly title: string;
  readonly text: string;
  /** URLs of pages on the same host, without repetitions, normalised by `pageUrl`. */
  readonly links: readonly string[];
}

/** Longest text that is kept of a page, in UTF-16 code units. */
const MAX_TEXT = 300_000;
/** Longer URLs are not followed, because they are usually traps. A PID could be twice as long. */
const MAX_URL = 2_000;

/** Reads an HTML, Markdown or plain text document. */
export function parsePage({ url, contentType, body }: RawPage): ParsedPage {
  if (contentType === 'text/plain') return { title: url, text: body.slice(0, MAX_TEXT), links: [] };
  const html = contentType === 'text/markdown' ? marked.parse(body, { async: false }) : body;
  const root = parse(html, { blockTextElements: { script: false, style: false, noscript: false } });
  const heading = root.querySelector('title') ?? root.querySelector('h1') ?? root.querySelector('h2');
  const base = pageUrl(root.querySelector('base[href]')?.getAttribute('href') ?? '', url) ?? url;
  const hrefs = root.querySelectorAll('a[href]').map((anchor) => anchor.getAttribute('href') ?? '');
  return {
    title: heading?.text.replaceAll(/\s+/g, ' ').trim() || url,
    text: root.structuredText.slice(0, MAX_TEXT),
    links: [...new Set(hrefs.map((href) => pageUrl(href, base)))].filter((link) => link !== undefined),
  };
}

/**
 * The URL by which the linked page is identified: absolute, without a fragment. Undefined if the link leads to another host
 * or is not a page.
 */
export function pageUrl(href: string, base: string): string | undefined {
  const url = URL.parse(href, base);
  if (url === null || !/^https?:$/.test(url.protocol) || url.host !== new URL(base).host) return undefined;
  url.hash = '';
  return url.href.length <= MAX_URL ? url.href : undefined;
}
