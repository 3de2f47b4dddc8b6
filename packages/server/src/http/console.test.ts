import { get as getRaw } from 'node:http';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { ConsoleFile } from '@taskmaster/console';
import { keptLog } from '@taskmaster/engine/testing';
import { hashOfToken } from '@taskmaster/proto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';
import { refusalOf, toWireError } from '../calls/index.ts';
import { meApi, type ServerFacts } from './me-api.ts';
import { jsonReply } from './reply.ts';
import { HttpServer } from './server.ts';

const PAGE = '<!doctype html><title>TaskMaster</title>'.repeat(20);
const fileOf = (text: string, type: string, immutable: boolean): ConsoleFile => ({
  type,
  body: Buffer.from(text),
  gzip: async () => (immutable ? gzipSync(text) : undefined),
  etag: `"${text.length}"`,
  immutable,
});
const files = new Map([
  ['index.html', fileOf(PAGE, 'text/html; charset=utf-8', false)],
  ['assets/index-1.js', fileOf('let a;'.repeat(50), 'text/javascript; charset=utf-8', true)],
]);
const facts = (): ServerFacts => ({
  role: 'node',
  name: 'a',
  version: '1.2.3',
  cluster: 'c',
  grpcAddress: '127.0.0.1:7400',
  uptimeMs: 1,
  health: 'serving',
  healthMessage: 'all groups that the node holds are served',
});
const TOKEN = 'a-token-of-ada';
const table = (tokens: readonly string[]): AccessTable =>
  new AccessTable({
    principals: [
      {
        name: 'ada',
        tokens: tokens.map(hashOfToken),
        rights: [{ groups: ['shop*'], allow: ['read', 'lease'] }, { allow: ['manage-cluster'] }],
      },
    ],
  });

async function start(access?: Access): Promise<string> {
  const log = keptLog();
  const server = new HttpServer(
    { host: '127.0.0.1', port: 0 },
    {
      routes: new Map([
        [
          '/api/long',
          (query: URLSearchParams) => {
            const long = 'x'.repeat(Number(query.get('length')));
            return { ...jsonReply({ long }), isCompressible: query.get('secret') !== '1' };
          },
        ] as const,
        ['/api/me', (_query: URLSearchParams, caller, address) => meApi(access, caller, address, facts)] as const,
      ]),
      access,
      files,
      toWireError: (thrown) => toWireError(refusalOf(thrown, log)),
    },
  );
  const port = await server.start();
  onTestFinished(() => server.stop());
  return `http://127.0.0.1:${port}`;
}

/** A body as it is sent. */
const raw = (url: string, accepts: string): Promise<{ readonly encoding: string | undefined; readonly body: Buffer }> =>
  new Promise((resolve, reject) => {
    getRaw(url, { headers: { 'accept-encoding': accepts } }, async (response) => {
      const body = Buffer.concat(await response.toArray());
      expect(response.headers['content-length']).toBe(String(body.byteLength));
      resolve({ encoding: response.headers['content-encoding'], body });
    }).once('error', reject);
  });

describe('replies without secrets', () => {
  test.each([
    ['gzip, br', 'length=2000', true],
    ['identity', 'length=2000', false],
    ['gzip, br', 'length=900', false],
    ['gzip, br', 'length=2000&secret=1', false],
  ])('are compressed if this pays and the browser takes it: %s, %s', async (accepts, query, compressed) => {
    const { encoding, body } = await raw(`${await start()}/api/long?${query}`, accepts);
    expect(encoding).toBe(compressed ? 'gzip' : undefined);
    const { long } = JSON.parse((compressed ? gunzipSync(body) : body).toString());
    expect(query).toContain(`length=${long.length}`);
    if (compressed) expect(body.byteLength).toBeLessThan(200);
  });
});

describe('the files of the console', () => {
  test('need no credential, and are served with a policy that allows nothing of other sites', async () => {
    const base = await start(new Access({ table: table([TOKEN]) }));
    const page = await fetch(`${base}/console/`);
    expect([page.status, await page.text()]).toEqual([200, PAGE]);
    const policy = page.headers.get('content-security-policy')?.split('; ');
    for (const rule of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'none'"]) {
      expect(policy).toContain(rule);
    }
    expect(policy).toContain("frame-ancestors 'none'");
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
  });

  test('have the page at the entry, at the root and for its views, and nothing else', async () => {
    const base = await start();
    const at = async (path: string) => {
      const reply = await fetch(`${base}${path}`, { redirect: 'manual' });
      return [reply.status, reply.headers.get('location') ?? reply.headers.get('content-type')];
    };
    const html = [200, 'text/html; charset=utf-8'];
    expect(await at('/')).toEqual([302, '/console/']);
    expect(await at('/console')).toEqual([302, '/console/']);
    expect(await at('/console/')).toEqual(html);
    expect(await at('/console/queues/shop%23mail')).toEqual(html);
    expect(await at('/console/index.html')).toEqual(html);
    expect(await at('/console/assets/index-1.js')).toEqual([200, 'text/javascript; charset=utf-8']);
    for (const path of ['/console/assets/index-2.js', '/console/../index.html', '/assets/index-1.js']) {
      expect([path, (await at(path))[0]]).toEqual([path, 404]);
    }
    expect((await fetch(`${base}/console/`, { method: 'POST' })).status).toBe(404);
  });

  test('are cached for ever if their names have a hash, and asked for again otherwise', async () => {
    const base = await start();
    const script = await fetch(`${base}/console/assets/index-1.js`);
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const page = await fetch(`${base}/console/`);
    expect(page.headers.get('cache-control')).toBe('no-cache');
    const etag = page.headers.get('etag') ?? '';
    for (const known of [etag, `W/${etag}`, `"x", ${etag}`]) {
      const again = await fetch(`${base}/console/`, { headers: { 'if-none-match': known } });
      expect([again.status, await again.text()]).toEqual([304, '']);
    }
    expect((await fetch(`${base}/console/`, { headers: { 'if-none-match': '"x"' } })).status).toBe(200);
  });

  test.each([
    ['gzip', true],
    ['br, gzip;q=0.5', true],
    ['gzip;q=0', false],
    ['identity', false],
  ])('are compressed if the browser takes it: %s', async (accepts, compressed) => {
    const { encoding, body } = await raw(`${await start()}/console/assets/index-1.js`, accepts);
    expect(encoding).toBe(compressed ? 'gzip' : undefined);
    expect((compressed ? gunzipSync(body) : body).toString()).toBe('let a;'.repeat(50));
  });

  test('are not for frames of other sites', async () => {
    const base = await start();
    const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' };
    const framed = await new Promise<number | undefined>((resolve, reject) => {
      getRaw(`${base}/console/`, { headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).once('error', reject);
    });
    expect(framed).toBe(403);
  });
});

describe('what a caller may do', () => {
  const me = async (base: string, token?: string): Promise<unknown> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const reply = await fetch(`${base}/api/me`, { headers });
    expect(reply.status).toBe(200);
    return reply.json();
  };

  test('is everything without rules', async () => {
    expect(await me(await start())).toEqual({
      needsToken: false,
      identified: true,
      principal: '',
      credential: 'none',
      expiresAtMs: 0,
      everything: true,
      clusterRights: ['manage-cluster', 'back-up'],
      grants: [],
      address: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      server: facts(),
    });
  });

  test('is what the rules say, and nothing of the server is told to others', async () => {
    const access = new Access({ table: table([TOKEN]) });
    const base = await start(access);
    expect(await me(base, TOKEN)).toMatchObject({
      needsToken: true,
      identified: true,
      principal: 'ada',
      credential: 'token',
      everything: false,
      clusterRights: ['manage-cluster', 'back-up'],
      grants: [{ groups: ['shop*'], rights: ['read', 'lease'] }],
      server: { version: '1.2.3' },
    });
    const none = await me(base);
    expect(none).toMatchObject({ needsToken: true, identified: false, refusal: { code: 'UNAUTHENTICATED' } });
    expect(none).toMatchObject({ everything: false, clusterRights: [], grants: [] });
    expect(none).not.toHaveProperty('server');
    access.replace({ table: table(['another-token']) });
    expect(await me(base, TOKEN)).toMatchObject({ identified: false, refusal: { reason: 'UNAUTHENTICATED' } });
  });
});
