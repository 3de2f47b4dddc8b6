import { setTimeout as delay } from 'node:timers/promises';
import { TextDecoder } from 'node:util';
import { pageUrl, type RawPage } from './page.ts';
import { parseRobots, type Robots } from './robots.ts';

/** The result of a request for a page. */
export type Fetched =
  | { readonly kind: 'page'; readonly page: RawPage }
  | { readonly kind: 'redirect'; readonly to: string }
  | { readonly kind: 'nothing'; readonly reason: string };

interface SiteUnavailableOptions {
  readonly retryAfterMs?: number | undefined;
  readonly isBroken?: boolean | undefined;
  readonly cause?: unknown;
}

/** The site cannot answer now. The same request may succeed later. */
export class SiteUnavailableError extends Error {
  override readonly name = 'SiteUnavailableError';
  /** Delay that the site asks for, in ms. */
  readonly retryAfterMs: number | undefined;
  /** Whether the site says that the fault is its own (500). Then it rarely helps to ask again. */
  readonly isBroken: boolean;

  constructor(message: string, options: SiteUnavailableOptions = {}) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
    this.isBroken = options.isBroken ?? false;
  }
}

export interface WebOptions {
  /** Minimum time between two requests of this process, in ms. `Crawl-delay` in robots.txt can make it longer. */
  readonly pauseMs: number;
}

const USER_AGENT = 'TaskMasterExampleCrawler/0.1';
/** Timeout of a request, in ms. Then the site counts as unavailable. */
const ANSWER_TIMEOUT_MS = 15_000;
/** Maximum size of a page, in bytes. Of a larger page the beginning is read. */
const MAX_PAGE_BYTES = 1024 * 1024;
const READABLE = ['text/html', 'application/xhtml+xml', 'text/markdown', 'text/plain'];

/** A polite HTTP client for one host. Concurrent callers share its limit of requests. */
export class Web {
  readonly #pauseMs: number;
  #robots: Promise<Robots> | undefined;
  #nextRequestAt = 0;

  constructor(options: WebOptions) {
    this.#pauseMs = options.pauseMs;
  }

  /** @throws SiteUnavailableError. Rejects with the reason of the signal if it is aborted. */
  async fetch(url: string, signal?: AbortSignal): Promise<Fetched> {
    const robots = await this.#robotsOf(url);
    if (robots.isDisallowed(url, USER_AGENT)) return { kind: 'nothing', reason: 'robots.txt' };
    await this.#takeTurn(robots.getCrawlDelay(USER_AGENT), signal);
    const response = await request(url, signal);
    const { status, headers } = response;
    const location = headers.get('location');
    const contentType = mediaType(headers);
    if (status >= 300 && status < 400 && location !== null) {
      await response.body?.cancel();
      const to = pageUrl(location, url);
      return to === undefined ? { kind: 'nothing', reason: `${status} to elsewhere` } : { kind: 'redirect', to };
    }
    if (!response.ok || !READABLE.includes(contentType)) {
      await response.body?.cancel();
      return { kind: 'nothing', reason: response.ok ? `type ${contentType}` : `status ${status}` };
    }
    return { kind: 'page', page: { url, contentType, body: await readBody(response) } };
  }

  /** Requested once. Requested again only if there was no answer. */
  #robotsOf(url: string): Promise<Robots> {
    this.#robots ??= readRobots(new URL('/robots.txt', url).href).catch((error: unknown) => {
      this.#robots = undefined;
      throw error;
    });
    return this.#robots;
  }

  async #takeTurn(crawlDelaySeconds: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    const pauseMs = Math.max(this.#pauseMs, (crawlDelaySeconds ?? 0) * 1000);
    if (pauseMs === 0) return;
    const now = performance.now();
    const turn = Math.max(now, this.#nextRequestAt);
    this.#nextRequestAt = turn + pauseMs;
    await delay(turn - now, undefined, { signal });
  }
}

async function readRobots(url: string): Promise<Robots> {
  const response = await request(url);
  const rules = response.ok ? await readBody(response) : '';
  if (!response.ok) await response.body?.cancel();
  return parseRobots(url, rules);
}

async function request(url: string, signal?: AbortSignal): Promise<Response> {
  const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  let response: Response;
  try {
    response = await fetch(url, {
      // A redirect counts as a link: its target may be known already, or be disallowed.
      redirect: 'manual',
      headers: { 'user-agent': USER_AGENT, accept: READABLE.join(', ') },
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
  } catch (cause) {
    signal?.throwIfAborted();
    throw new SiteUnavailableError(`${url}: no answer`, { cause });
  }
  if (response.status < 500 && response.status !== 429) return response;
  await response.body?.cancel();
  const retryAfterSeconds = Number(response.headers.get('retry-after') ?? 'none');
  throw new SiteUnavailableError(`${url}: status ${response.status}`, {
    isBroken: response.status === 500,
    retryAfterMs: Number.isFinite(retryAfterSeconds) ? retryAfterSeconds * 1000 : undefined,
  });
}

function mediaType(headers: Headers): string {
  return (headers.get('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

async function readBody(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes >= MAX_PAGE_BYTES) break;
    }
  } catch (cause) {
    throw new SiteUnavailableError(`${response.url}: the answer broke off`, { cause });
  }
  return decoderOf(response.headers).decode(Buffer.concat(chunks));
}

function decoderOf(headers: Headers): TextDecoder {
  const charset = /charset="?([\w-]+)/i.exec(headers.get('content-type') ?? '')?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(charset);
  } catch (error) {
    if (error instanceof RangeError) return new TextDecoder();
    throw error;
  }
}
