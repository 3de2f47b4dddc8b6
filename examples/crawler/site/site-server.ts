import { createHash } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Corpus } from './corpus.ts';
import { BROKEN_PAGE } from './render.ts';

/** Shares of the pages that answer 503 to the first request, and to the first two requests. */
const FAILS_ONCE = 0.1;
const FAILS_TWICE = 0.03;

export interface SiteOptions {
  /** Decides which pages are slow, and which fail at first. */
  readonly seed: number;
  /** Range of the latency, in ms. Most answers are near the lower bound. */
  readonly latencyMs: readonly [min: number, max: number];
}

/**
 * Serves the corpus on a free port of 127.0.0.1. Like a real site it answers slowly, and some pages answer 503 until they
 * are requested again. Seed and path decide which ones. One page always answers 500.
 */
export class SiteServer implements AsyncDisposable {
  readonly #corpus: Corpus;
  readonly #options: SiteOptions;
  readonly #server: Server;
  readonly #asked = new Map<string, number>();
  #calm = false;
  #unavailableAnswers = 0;

  private constructor(corpus: Corpus, options: SiteOptions) {
    this.#corpus = corpus;
    this.#options = options;
    this.#server = createServer((request, response) => {
      this.#answer(request.url ?? '/', response).catch((error: unknown) => response.destroy(asError(error)));
    });
  }

  static async start(corpus: Corpus, options: SiteOptions): Promise<SiteServer> {
    const site = new SiteServer(corpus, options);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    site.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    await promise;
    return site;
  }

  /** URL of the start page. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}/`;
  }

  /** Number of answers 503. */
  get unavailableAnswers(): number {
    return this.#unavailableAnswers;
  }

  /** From now on all answers are fast and successful. The reference crawl uses this. */
  calmDown(): void {
    this.#calm = true;
  }

  async stop(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    await promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #answer(url: string, response: ServerResponse): Promise<void> {
    const path = pathOf(url);
    if (!this.#calm) {
      await delay(this.#latencyMs(path));
      if (this.#isUnavailable(path)) {
        this.#unavailableAnswers++;
        response.writeHead(503, { 'content-type': 'text/plain' }).end('come again\n');
        return;
      }
    }
    const page = this.#corpus.get(path);
    if (path === BROKEN_PAGE) {
      response.writeHead(500, { 'content-type': 'text/plain' }).end('the statistics cannot be counted\n');
    } else if (page !== undefined) {
      const body = await page.read();
      response.writeHead(200, { 'content-type': `${page.contentType}; charset=utf-8` }).end(body);
    } else if (this.#corpus.has(`${path}/`)) {
      response.writeHead(301, { location: `${encodeURI(path)}/` }).end();
    } else {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('no such page\n');
    }
  }

  #latencyMs(path: string): number {
    const [min, max] = this.#options.latencyMs;
    return min + (max - min) * this.#chance('latency', path) ** 3;
  }

  #isUnavailable(path: string): boolean {
    const asked = (this.#asked.get(path) ?? 0) + 1;
    this.#asked.set(path, asked);
    const chance = this.#chance('failure', path);
    return asked <= (chance < FAILS_TWICE ? 2 : chance < FAILS_ONCE ? 1 : 0);
  }

  /** A number in [0, 1), uniformly distributed. It depends only on seed, kind and path. */
  #chance(kind: string, path: string): number {
    const digest = createHash('sha256').update(`${this.#options.seed}/${kind}/${path}`).digest();
    return digest.readUInt32BE(0) / 2 ** 32;
  }
}

/** The path as the corpus has it. A path that cannot be decoded matches no page. */
function pathOf(url: string): string {
  const [path = '/'] = url.split('?', 1);
  try {
    return decodeURIComponent(path);
  } catch (error) {
    if (error instanceof URIError) return path;
    throw error;
  }
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
