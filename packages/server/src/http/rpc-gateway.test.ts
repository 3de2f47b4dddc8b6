import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { Refusal, UpdateRefusal } from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { hashOfToken, limits, methods } from '@taskmaster/proto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Access } from '../access/access.ts';
import { type AccessRules, AccessTable } from '../access/access-table.ts';
import { refusalOf, type UnaryCaller, type UnaryHandler } from '../calls/index.ts';
import { toWireError } from '../calls/wire-errors.ts';
import type { AuditEvent } from '../ports/audit.ts';
import { sampleBytes } from '../testing/index.ts';
import { certificateFiles, TestAuthority } from '../testing/tls/certificates.ts';
import { Tls } from '../tls/tls.ts';
import { meApi, type ServerFacts } from './me-api.ts';
import { jsonReply } from './reply.ts';
import { HttpServer, type HttpServerOptions, type Route } from './server.ts';

const CONSOLE = { 'content-type': 'application/proto', 'x-taskmaster-console': '1' };
const TOKEN = 'a-token-of-billing';

const rules = (limits: object = {}): AccessRules => ({
  principals: [
    {
      name: 'billing',
      tokens: [hashOfToken(TOKEN)],
      rights: [{ groups: ['billing'], allow: ['manage-queues', 'lease'] }],
      limits,
    },
  ],
});
const accessBy = (limits?: object): Access => new Access({ table: new AccessTable(rules(limits)) });

interface Ended {
  readonly method: string;
  readonly reason: string | undefined;
}

class World {
  readonly log = keptLog();
  readonly events: AuditEvent[] = [];
  readonly ended: Ended[] = [];
  /** Resolves when a call has ended for the metrics. */
  readonly firstEnd = Promise.withResolvers<Ended>();
  calls = 0;
  port = 0;

  get base(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  post(path: string, body: Uint8Array, headers: Record<string, string> = {}, signal?: AbortSignal) {
    const init = { method: 'POST', body: Buffer.from(body), headers: { ...CONSOLE, ...headers } };
    return fetch(`${this.base}${path}`, signal === undefined ? init : { ...init, signal });
  }
}

interface Options extends Partial<HttpServerOptions> {
  readonly tls?: Tls;
  readonly access?: Access;
  readonly handlers?: () => Readonly<Record<string, UnaryHandler>>;
}

/** A server whose methods answer by `handler`. */
async function start(handler: UnaryHandler, { access, handlers, tls, ...options }: Options = {}): Promise<World> {
  const world = new World();
  const { log } = world;
  const counted: UnaryHandler = (bytes, caller) => {
    world.calls++;
    return handler(bytes, caller);
  };
  const server = new HttpServer(
    { host: '127.0.0.1', port: 0, ...options },
    {
      routes: new Map<string, Route>([
        ['/api/me', (_query, caller, address) => meApi(access, caller, address, () => ({}) as ServerFacts)],
        ['/api/overview', () => jsonReply({})],
        ['/metrics', () => jsonReply({})],
      ]),
      tls,
      access,
      audit: { record: (event) => void world.events.push(event) },
      toWireError: (thrown) => toWireError(refusalOf(thrown, log)),
      rpc: {
        handlers: handlers ?? (() => ({ DeleteQueue: counted, LeaseTasks: counted, PeekTasks: counted })),
        observer: {
          callEnded: (method, reason) => {
            world.ended.push({ method, reason });
            world.firstEnd.resolve({ method, reason });
          },
        },
        log,
      },
    },
  );
  world.port = await server.start();
  onTestFinished(() => server.stop());
  return world;
}

interface Sent {
  readonly status: number;
  readonly body: string;
  readonly headers: object;
}

const echo: UnaryHandler = async (bytes) => bytes;
const deletion = sampleBytes('deleteQueue', 'billing#mail');

describe('a call over HTTP', () => {
  test('hands the very bytes to the handler, with the real address of the caller, and answers those of the reply', async () => {
    let seen: UnaryCaller | undefined;
    const sent = Buffer.from([8, 1, 255, 0, 18]);
    const world = await start(async (bytes, caller) => {
      seen = caller;
      return Buffer.concat([Buffer.from([7]), bytes]);
    });
    const reply = await world.post('/rpc/PeekTasks', sent);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('content-type')).toBe('application/proto');
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(Buffer.from(await reply.arrayBuffer())).toEqual(Buffer.concat([Buffer.from([7]), sent]));
    expect(seen).toMatchObject({ routed: false, forwarded: false });
    expect(seen?.address).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(world.ended).toEqual([{ method: 'PeekTasks', reason: undefined }]);
  });

  test('is in the audit log as over gRPC: changes, and refusals for want of rights', async () => {
    const access = accessBy();
    const world = await start(
      async (bytes, caller) => {
        const { queue } = methods.deleteQueue.requestDeserialize(bytes);
        caller.access.require('manage-queues', queue.split('#')[0] ?? '');
        return bytes;
      },
      { access },
    );
    const authorization = `Bearer ${TOKEN}`;
    expect((await world.post('/rpc/DeleteQueue', deletion, { authorization })).status).toBe(200);
    const shop = await world.post('/rpc/DeleteQueue', sampleBytes('deleteQueue', 'shop#mail'), { authorization });
    expect(shop.status).toBe(403);
    expect(await shop.json()).toMatchObject({ code: 'PERMISSION_DENIED', reason: 'PERMISSION_DENIED' });
    access.replace({ table: new AccessTable({ principals: [] }) });
    const revoked = await world.post('/rpc/DeleteQueue', deletion, { authorization });
    expect(revoked.status).toBe(401);
    // A browser must not ask its user for a name and a password: the page does.
    expect(revoked.headers.get('www-authenticate')).toBeNull();
    const address = expect.stringMatching(/^127\.0\.0\.1:\d+$/);
    expect(world.events).toEqual([
      {
        kind: 'management',
        action: 'DeleteQueue',
        target: 'billing#mail',
        result: 'ok',
        principal: 'billing',
        address,
      },
      {
        kind: 'refusal',
        action: 'DeleteQueue',
        target: 'shop#mail',
        result: 'PERMISSION_DENIED',
        principal: 'billing',
        address,
      },
      { kind: 'refusal', action: 'DeleteQueue', target: 'billing#mail', result: 'UNAUTHENTICATED', address },
    ]);
    expect(world.calls).toBe(2);
  });

  test('counts for the quotas of its principal while it is served', async () => {
    const access = accessBy({ bytesInFlight: deletion.length });
    const { promise, resolve } = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const world = await start(
      async (bytes) => {
        begun.resolve();
        await promise;
        return bytes;
      },
      { access },
    );
    const authorization = `Bearer ${TOKEN}`;
    const first = world.post('/rpc/DeleteQueue', deletion, { authorization });
    await begun.promise;
    const second = await world.post('/rpc/DeleteQueue', deletion, { authorization });
    expect(second.status).toBe(429);
    expect(await second.json()).toMatchObject({ code: 'RESOURCE_EXHAUSTED', reason: 'QUOTA_EXCEEDED' });
    resolve();
    expect((await first).status).toBe(200);
    expect((await world.post('/rpc/DeleteQueue', deletion, { authorization })).status).toBe(200);
  });

  test('counts its connection for its principal until it is closed', async () => {
    const access = accessBy({ connections: 1 });
    const world = await start(echo, { access });
    const socket = connect(world.port, '127.0.0.1');
    const headers = Object.entries({ ...CONSOLE, authorization: `Bearer ${TOKEN}`, host: 'localhost' });
    const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    socket.write(`POST /rpc/PeekTasks HTTP/1.1\r\n${head}content-length: 0\r\n\r\n`);
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1.1 200/);
    const usage = access.usages.of('billing');
    expect(usage?.used('connections')).toBe(1);
    const other = await world.post('/rpc/PeekTasks', deletion, { authorization: `Bearer ${TOKEN}` });
    expect(await other.json()).toMatchObject({ reason: 'QUOTA_EXCEEDED', metadata: { quota: 'connections' } });
    socket.destroy();
    await expect.poll(() => usage?.used('connections')).toBe(0);
  });

  test('is refused like the message Error: reason, metadata, delay and the items at fault', async () => {
    const queue = { group: 'billing', name: 'mail' };
    const item = { kind: 'dequeue' as const, index: 3, reason: 'LEASE_LOST' as const, queue, pid: 'a\u00ff' };
    const world = await start(() => Promise.reject(new UpdateRefusal([item as never])));
    const reply = await world.post('/rpc/PeekTasks', deletion);
    expect(reply.status).toBe(409);
    expect(await reply.json()).toMatchObject({
      code: 'FAILED_PRECONDITION',
      reason: 'LEASE_LOST',
      metadata: { items: '1' },
      items: [
        { index: 3, queue: 'billing#mail', pid: Buffer.from([97, 255]).toString('base64'), reason: 'LEASE_LOST' },
      ],
    });
  });

  test('that fails for a bug says nothing of it', async () => {
    const world = await start(() => Promise.reject(new TypeError('secret')));
    const reply = await world.post('/rpc/PeekTasks', deletion);
    expect(reply.status).toBe(500);
    expect(await reply.text()).not.toContain('secret');
    expect(world.ended).toEqual([{ method: 'PeekTasks', reason: 'INTERNAL' }]);
  });

  test('that fails for a bug names the trace of its caller in the log, and handlers get it to pass it on', async () => {
    let seen: string | undefined;
    const world = await start((_bytes, { traceparent }) => {
      seen = traceparent;
      return Promise.reject(new TypeError('secret'));
    });
    const [trace, span] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
    const traceparent = `00-${trace}-${span}-01`;
    await world.post('/rpc/PeekTasks', deletion, { traceparent });
    expect(seen).toBe(traceparent);
    const named = (): readonly unknown[] => world.log.lines.map(({ details }) => details);
    expect(named()).toMatchObject([{ call: 'PeekTasks', trace_id: trace, span_id: span }]);
    await world.post('/rpc/PeekTasks', deletion, { traceparent: 'no trace' });
    expect(named()[1]).toMatchObject({ call: 'PeekTasks' });
    expect(named()[1]).not.toHaveProperty('trace_id');
  });

  test('of an unknown method, or while the program starts, is refused', async () => {
    const world = await start(echo);
    for (const path of ['/rpc/Nothing', '/rpc/', '/rpc/__proto__', '/rpc/constructor', '/rpc/PeekTasks/x']) {
      const reply = await world.post(path, deletion);
      expect([path, reply.status]).toEqual([path, 404]);
      expect(await reply.json()).toMatchObject({ code: 'UNIMPLEMENTED', reason: 'UNKNOWN_METHOD' });
    }
    const starting = await start(echo, {
      handlers: () => {
        throw new Refusal('STARTING', 'the node is opening its data');
      },
    });
    const reply = await starting.post('/rpc/PeekTasks', deletion);
    expect(reply.status).toBe(503);
    expect(await reply.json()).toMatchObject({ code: 'UNAVAILABLE', reason: 'STARTING' });
  });
});

describe('a call that takes long', () => {
  /** A handler that waits until its caller does not any more, and then has changed something after all. */
  const untilGone: UnaryHandler = async (bytes, { signal }) => {
    await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()));
    return bytes;
  };

  test('is answered at its deadline, and recorded with what it did', async () => {
    const world = await start(untilGone);
    const reply = await world.post('/rpc/DeleteQueue', deletion, { 'x-timeout-ms': '20' });
    expect(reply.status).toBe(504);
    expect(await reply.json()).toMatchObject({ code: 'DEADLINE_EXCEEDED', reason: 'DEADLINE_EXCEEDED' });
    expect(await world.firstEnd.promise).toEqual({ method: 'DeleteQueue', reason: undefined });
    expect(world.events).toMatchObject([{ action: 'DeleteQueue', result: 'ok' }]);
  });

  test('has the deadline that the header names', async () => {
    let deadline = 0;
    const world = await start(async (bytes, caller) => {
      ({ deadline } = caller);
      return bytes;
    });
    const before = Date.now();
    await world.post('/rpc/PeekTasks', deletion, { 'x-timeout-ms': '20000' });
    expect(deadline).toBeGreaterThanOrEqual(before + 20_000);
    await world.post('/rpc/PeekTasks', deletion);
    expect(deadline).toBeLessThan(Date.now() + 15_001);
    for (const wrong of ['0', '-1', '25001', '1e3', 'soon', '']) {
      const reply = await world.post('/rpc/PeekTasks', deletion, { 'x-timeout-ms': wrong });
      expect([wrong, await reply.json()]).toMatchObject([wrong, { reason: 'INVALID_ARGUMENT' }]);
    }
    expect(world.calls).toBe(2);
  });

  test('ends when the browser closes its connection', async () => {
    const begun = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<boolean>();
    const world = await start(async (bytes, caller) => {
      begun.resolve();
      caller.signal?.addEventListener('abort', () => gone.resolve(caller.gone));
      await gone.promise;
      return bytes;
    });
    const abort = new AbortController();
    const reply = world.post('/rpc/PeekTasks', deletion, {}, abort.signal);
    await begun.promise;
    abort.abort();
    await expect(reply).rejects.toThrow();
    expect(await gone.promise).toBe(true);
  });

  test('ends when its caller loses the right that it waits with', async () => {
    const access = accessBy();
    const waiting = Promise.withResolvers<void>();
    const world = await start(
      async (bytes, caller) => {
        caller.beginWaiting?.(10, () => caller.access.require('lease', 'billing'));
        waiting.resolve();
        return untilGone(bytes, caller);
      },
      { access },
    );
    const reply = world.post('/rpc/LeaseTasks', deletion, { authorization: `Bearer ${TOKEN}` });
    await waiting.promise;
    access.replace({
      table: new AccessTable({ principals: [{ name: 'billing', tokens: [hashOfToken(TOKEN)], rights: [] }] }),
    });
    expect((await reply).status).toBe(403);
  });

  test('leaves room for others: eight of one host may wait', async () => {
    const world = await start(async (bytes, caller) => {
      if (bytes.length === 0) return bytes;
      caller.beginWaiting?.(10);
      return untilGone(bytes, caller);
    });
    const abort = new AbortController();
    const waiting = Array.from({ length: 8 }, () =>
      world.post('/rpc/LeaseTasks', deletion, {}, abort.signal).catch(() => {}),
    );
    await expect.poll(() => world.calls).toBe(8);
    const ninth = await world.post('/rpc/LeaseTasks', deletion);
    expect(await ninth.json()).toMatchObject({ reason: 'TOO_MANY_WAITERS' });
    expect((await world.post('/rpc/PeekTasks', Buffer.alloc(0))).status).toBe(200);
    abort.abort();
    await Promise.all(waiting);
    await expect.poll(() => world.ended.length).toBe(10);
  });
});

describe('a request that the console has not sent', () => {
  /** Sends exactly these headers, as fetch would not: it is a browser's task to protect some. */
  const forge = (world: World, headers: Record<string, string>, method = 'POST'): Promise<Sent> =>
    new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: world.port, path: '/rpc/DeleteQueue', method, headers };
      httpRequest(options, async (response) => {
        resolve({ status: response.statusCode ?? 0, body: await text(response), headers: response.headers });
      })
        .once('error', reject)
        .end(method === 'POST' ? deletion : undefined);
    });
  const host = 'node-a:7401';

  test.each([
    ['a form of another site', { 'content-type': 'text/plain', origin: 'https://evil.example' }, 403],
    ['a form without an origin', { 'content-type': 'application/x-www-form-urlencoded' }, 403],
    ['a fetch of another site', { ...CONSOLE, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }, 403],
    ['a page of another port', { ...CONSOLE, 'sec-fetch-site': 'same-site', origin: 'http://node-a:80' }, 403],
    [
      'a navigation',
      { ...CONSOLE, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      403,
    ],
    ['a fetch of another site over plain HTTP', { ...CONSOLE, origin: 'http://evil.example' }, 403],
    ['a sandboxed page', { ...CONSOLE, origin: 'null' }, 403],
    ['an origin with this host in its name', { ...CONSOLE, origin: 'http://node-a:7401.evil.example' }, 403],
    ['a request without the header', { 'content-type': 'application/proto' }, 403],
    ['another type', { ...CONSOLE, 'content-type': 'application/json' }, 415],
    ['a rebound name', { ...CONSOLE, host: 'evil.example', origin: 'http://evil.example' }, 421],
  ])('is refused: %s', async (_what, headers, status) => {
    const world = await start(echo, { allowedHosts: ['node-a'] });
    const reply = await forge(world, { host, ...headers });
    expect(reply.status).toBe(status);
    expect(JSON.parse(reply.body)).toMatchObject({ reason: expect.stringMatching(/^[A-Z_]+$/) });
    expect(world.calls).toBe(0);
    const recorded = { kind: 'refusal', action: 'POST /rpc/', target: '', result: 'CROSS_SITE' };
    expect(world.events).toMatchObject(status === 403 ? [recorded] : []);
  });

  test.each([
    ['over plain HTTP', { origin: 'http://node-a:7401' }],
    ['over TLS', { origin: 'https://node-a:7401', 'sec-fetch-site': 'same-origin' }],
    ['behind a proxy that changes the host', { origin: 'https://console.example', 'sec-fetch-site': 'same-origin' }],
    ['of a program', {}],
  ])('a request of the console is served: %s', async (_what, headers) => {
    const world = await start(echo, { allowedHosts: ['node-a'] });
    expect((await forge(world, { host, ...CONSOLE, ...headers })).status).toBe(200);
    expect(world.calls).toBe(1);
  });

  test('no site is allowed to ask', async () => {
    const world = await start(echo);
    const asks = { host: 'localhost', origin: 'http://evil.example', 'access-control-request-method': 'POST' };
    const reply = await forge(world, asks, 'OPTIONS');
    expect(reply.status).toBe(405);
    expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    expect((await forge(world, { host: 'localhost' }, 'GET')).status).toBe(405);
  });
});

describe('a server that requires client certificates of programs', () => {
  test('serves methods, and what tells the same, only to callers that show one, also without rules of access', async () => {
    const authority = await TestAuthority.create();
    await using files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
    const { certFile, keyFile, caFile } = files;
    const more = { minVersion: '1.3', peerName: '', clientCertificates: 'required' } as const;
    using tls = new Tls({ certFile, keyFile, caFile, ...more }, keptLog());
    const world = await start(echo, { tls });
    const own = await authority.sign({ name: 'ada' });
    const other = await (await TestAuthority.create('another')).sign({ name: 'ada' });
    const ask = (path: string, method: string, shown: object): Promise<Sent> =>
      new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port: world.port, path, method, ca: authority.pem, headers: CONSOLE };
        secureRequest({ ...options, ...shown, agent: false }, async (response) => {
          resolve({ status: response.statusCode ?? 0, body: await text(response), headers: response.headers });
        })
          .once('error', reject)
          .end(method === 'POST' ? deletion : undefined);
      });
    for (const shown of [{}, other]) {
      const { status, body } = await ask('/rpc/DeleteQueue', 'POST', shown);
      expect([status, JSON.parse(body)]).toMatchObject([401, { reason: 'UNAUTHENTICATED' }]);
      const me = await ask('/api/me', 'GET', shown);
      expect(JSON.parse(me.body)).toMatchObject({ identified: false, refusal: { reason: 'UNAUTHENTICATED' } });
      expect((await ask('/api/overview', 'GET', shown)).status).toBe(401);
      expect((await ask('/metrics', 'GET', shown)).status).toBe(200);
    }
    expect(world.calls).toBe(0);
    expect(world.events).toMatchObject([
      { action: 'DeleteQueue', target: 'billing#mail', result: 'UNAUTHENTICATED' },
      { action: 'GET /api/overview', result: 'UNAUTHENTICATED' },
      { action: 'DeleteQueue' },
      { action: 'GET /api/overview' },
    ]);
    expect((await ask('/api/overview', 'GET', own)).status).toBe(200);
    expect((await ask('/rpc/DeleteQueue', 'POST', own)).status).toBe(200);
    expect(JSON.parse((await ask('/api/me', 'GET', own)).body)).toMatchObject({ identified: true, everything: true });
  });
});

describe('a body', () => {
  test('that is too large is refused, whether its size is declared or not', async () => {
    const world = await start(echo);
    const large = Buffer.alloc(limits.requestBytes + 1);
    const declared = await world.post('/rpc/PeekTasks', large);
    expect(declared.status).toBe(400);
    expect(await declared.json()).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'REQUEST_TOO_LARGE' });
    const init = { method: 'POST', headers: CONSOLE, body: new Blob([large]).stream(), duplex: 'half' };
    const chunked = await fetch(`${world.base}/rpc/PeekTasks`, init as RequestInit);
    expect(await chunked.json()).toMatchObject({ reason: 'REQUEST_TOO_LARGE' });
    expect(world.calls).toBe(0);
    const largest = await world.post('/rpc/PeekTasks', Buffer.alloc(limits.requestBytes));
    expect((await largest.arrayBuffer()).byteLength).toBe(limits.requestBytes);
  });

  test('is counted until its call is answered, for its host and for all', async () => {
    const release = Promise.withResolvers<void>();
    const world = await start(async () => {
      await release.promise;
      return Buffer.alloc(0);
    });
    const sendFrom = (localAddress: string, body: Buffer): Promise<Sent> =>
      new Promise((resolve, reject) => {
        const headers = { ...CONSOLE, 'content-length': body.length };
        const where = { host: '127.0.0.1', port: world.port, path: '/rpc/PeekTasks', localAddress };
        httpRequest({ ...where, method: 'POST', headers, agent: false }, async (response) => {
          resolve({ status: response.statusCode ?? 0, body: await text(response), headers: response.headers });
        })
          .once('error', reject)
          .end(body);
      });
    const large = Buffer.alloc(limits.requestBytes);
    const first = [sendFrom('127.0.0.1', large), sendFrom('127.0.0.1', large)];
    await expect.poll(() => world.calls).toBe(2);
    expect(JSON.parse((await sendFrom('127.0.0.1', deletion)).body)).toMatchObject({ reason: 'OVERLOADED' });
    const others = [sendFrom('127.0.0.2', large), sendFrom('127.0.0.2', large)];
    await expect.poll(() => world.calls).toBe(4);
    expect(JSON.parse((await sendFrom('127.0.0.3', deletion)).body)).toMatchObject({ reason: 'OVERLOADED' });
    release.resolve();
    expect((await Promise.all([...first, ...others])).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await sendFrom('127.0.0.1', large)).status).toBe(200);
  });

  test('that arrives too slowly is refused, and holds up no other call', async () => {
    const world = await start(echo, { arrivalTimeoutMs: 50 });
    const slow = connect(world.port, '127.0.0.1');
    const headers = Object.entries({ ...CONSOLE, host: 'localhost', 'content-length': '10' });
    const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    slow.write(`POST /rpc/PeekTasks HTTP/1.1\r\n${head}\r\nabc`);
    expect((await world.post('/rpc/PeekTasks', deletion)).status).toBe(200);
    expect(await text(slow)).toMatch(/^HTTP\/1.1 408 /);
    expect(world.calls).toBe(1);
  });
});
