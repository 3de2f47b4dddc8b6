import { request } from 'node:http';
import { hashOfToken } from '@taskmaster/proto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Access } from '../access/access.ts';
import { parseAccessFile } from '../access/access-file.ts';
import { refusalOf, toWireError } from '../calls/index.ts';
import type { AuditEvent } from '../ports/audit.ts';
import { jsonReply } from './reply.ts';
import { HttpServer, type HttpServerDeps, type Route } from './server.ts';

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const TOKEN = 'a-token-of-billing';
const rulesFor = (token: string) =>
  parseAccessFile(`
principals:
  - name: billing
    tokens: ["${hashOfToken(token)}"]
    rights:
      - groups: ["billing-*"]
        allow: [read]
`);

describe('with rules of access', () => {
  let access: Access;
  let server: HttpServer;
  let events: AuditEvent[];
  let base: string;

  const start = async (change: Partial<HttpServerDeps> = {}): Promise<void> => {
    const ok = () => jsonReply({ status: 'ok' });
    const routes: HttpServerDeps['routes'] = new Map<string, Route>([
      ['/livez', ok],
      ['/metrics', ok],
      [
        '/api/queues',
        (_query, caller) => {
          caller.require('read', 'shop');
          return ok();
        },
      ],
      ['/', (_query, caller) => jsonReply({ principal: caller.principal })],
    ]);
    server = new HttpServer(
      { host: '127.0.0.1', port: 0 },
      {
        routes,
        access,
        toWireError: (thrown) => toWireError(refusalOf(thrown, log)),
        audit: { record: (event) => void events.push(event) },
        ...change,
      },
    );
    base = `http://127.0.0.1:${await server.start()}`;
  };
  const get = (path: string, authorization?: string): Promise<Response> =>
    fetch(`${base}${path}`, authorization === undefined ? {} : { headers: { authorization } });
  /** Sends a path as it is. */
  const rawGet = (path: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const { port } = new URL(base);
      request({ host: '127.0.0.1', port, path }, (response) => response.resume().once('end', resolve))
        .once('error', reject)
        .end();
    });
  const basic = (name: string, password: string): string =>
    `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

  beforeEach(async () => {
    access = new Access({ table: rulesFor(TOKEN) });
    events = [];
    await start();
  });
  afterEach(() => server.stop());

  test('health needs no credential, pages and metrics do', async () => {
    expect((await get('/livez')).status).toBe(200);
    for (const path of ['/', '/metrics', '/api/queues']) {
      const reply = await get(path);
      expect(reply.status).toBe(401);
      expect(reply.headers.get('www-authenticate')).toMatch(/^Basic realm=.*Bearer/);
      expect(await reply.json()).toMatchObject({ error: { reason: 'UNAUTHENTICATED' } });
    }
  });

  test('what the console asks for needs one, which the page asks its user for, and not the browser', async () => {
    await server.stop();
    await start({ routes: new Map<string, Route>([['/api/overview', () => jsonReply({})]]) });
    const reply = await get('/api/overview');
    expect([reply.status, reply.headers.get('www-authenticate')]).toEqual([401, null]);
    expect((await get('/api/overview', `Bearer ${TOKEN}`)).status).toBe(200);
  });

  test('metrics need none if the settings say so', async () => {
    await server.stop();
    await start({ guardsMetrics: false });
    expect((await get('/metrics')).status).toBe(200);
    expect((await get('/')).status).toBe(401);
  });

  test.each([
    ['a bearer token', `Bearer ${TOKEN}`],
    ['the password of a browser', basic('anyone', TOKEN)],
  ])('%s is a credential', async (_what, authorization) => {
    expect(await (await get('/', authorization)).json()).toEqual({ principal: 'billing' });
  });

  test.each([
    ['another token', 'Bearer another-token'],
    ['another password', basic('billing', 'another-token')],
    ['a password without a name', `Basic ${Buffer.from(TOKEN).toString('base64')}`],
    ['no base64', 'Basic %%%'],
    ['another scheme', 'Digest x'],
    ['a very long header', basic('x', 'y'.repeat(9_000))],
    ['a token in the URL', undefined],
  ])('%s is not', async (_what, authorization) => {
    expect((await get(`/?token=${TOKEN}`, authorization)).status).toBe(401);
  });

  test('a caller without the right is refused with its name, and a revoked one is not known any more', async () => {
    const reply = await get('/api/queues', `Bearer ${TOKEN}`);
    expect(reply.status).toBe(403);
    expect(await reply.json()).toMatchObject({ error: { reason: 'PERMISSION_DENIED' } });
    access.replace({ table: rulesFor('a-newer-token') });
    expect((await get('/', `Bearer ${TOKEN}`)).status).toBe(401);
  });

  test('refusals are in the audit log, without what the caller sent', async () => {
    await get(`/api/queues?token=${TOKEN}`, 'Bearer a-wrong-token');
    await get('/livez');
    expect(events).toMatchObject([{ kind: 'refusal', action: 'GET /api/queues', result: 'UNAUTHENTICATED' }]);
    expect(JSON.stringify(events)).not.toMatch(/token/);
  });

  test('a wrong token is in the audit log also where none is needed, but a page that asks without one is not', async () => {
    await server.stop();
    await start({ routes: new Map<string, Route>([['/api/me', () => jsonReply({})]]) });
    for (const authorization of [undefined, `Bearer ${TOKEN}`, 'Bearer a-wrong-token']) {
      expect((await get('/api/me', authorization)).status).toBe(200);
    }
    expect(events).toMatchObject([{ kind: 'refusal', action: 'GET /api/me', result: 'UNAUTHENTICATED' }]);
  });

  test('the audit log names a path as the server knows it, so that no caller makes up many', async () => {
    for (const path of [
      '/api/queues',
      '//node/api/queues',
      '/./api/queues',
      '/x/../api/queues',
      '/x/%2e%2e/api/queues',
    ]) {
      await rawGet(path);
    }
    expect(new Set(events.map(({ action }) => action))).toEqual(new Set(['GET /api/queues']));
  });
});
