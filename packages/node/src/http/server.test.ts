import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type EngineHealth, Refusal } from '@taskmaster/engine/domain';
import type { QueueStats } from '@taskmaster/proto';
import { toWireError } from '@taskmaster/server/calls';
import { HttpServer, type NodeHealth } from '@taskmaster/server/http';
import { describe, expect, test } from 'vitest';
import { type NodeRoutesDeps, nodeRoutes } from './node-routes.ts';

const stats = (queue: string, change: Partial<QueueStats> = {}): QueueStats => ({
  queue,
  available: 1,
  leased: 0,
  delayed: 0,
  waiting: 0,
  completed: 0,
  enqueueRate: 0,
  leaseRate: 0,
  completeRate: 0,
  meanLeaseMs: 0,
  oldestAgeMs: 0,
  pause: undefined,
  heldBy: [],
  heldKeys: 0,
  heldTasks: 0,
  heldSinceUnixMs: 0,
  ...change,
});

const NO_ROUTES = { routes: new Map(), toWireError: (thrown: unknown) => toWireError(thrown as Refusal) };

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** A server that shows these queues, and the requests it passed on. */
async function setUp(queues: readonly QueueStats[] = [], health: NodeHealth = { kind: 'serving' }) {
  const asked: unknown[] = [];
  const deps: NodeRoutesDeps = {
    health: () => health,
    me: () => ({ status: 200, type: 'application/json', body: '{}' }),
    overview: () => ({ status: 200, type: 'application/json', body: '{}' }),
    reads: {
      listSchedules: async () => {
        throw new Refusal('NOT_HOLDER', 'this node does not hold it');
      },
      listQueues: async (given) => {
        asked.push(given);
        if (Number.isNaN(given.limit)) throw new Refusal('INVALID_ARGUMENT', 'limit is NaN');
        return { queues: [...queues], nextPageToken: 'next', unreachable: [] };
      },
    },
    metrics: { contentType: 'text/plain; version=0.0.4', text: async () => 'taskmaster_up 1\n' },
  };
  const server = new HttpServer({ host: '127.0.0.1', port: 0 }, { ...NO_ROUTES, routes: nodeRoutes(deps) });
  const port = await server.start();
  return {
    asked,
    port,
    server,
    get: async (path: string, init?: RequestInit): Promise<Answer> => {
      const reply = await fetch(`http://127.0.0.1:${port}${path}`, init);
      return { status: reply.status, headers: reply.headers, body: await reply.text() };
    },
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

describe('health over HTTP', () => {
  test.each<[EngineHealth, number]>([
    [{ kind: 'starting' }, 503],
    [{ kind: 'serving' }, 200],
    [{ kind: 'full' }, 200],
    [{ kind: 'failed', cause: new Error('fsync') }, 503],
    [{ kind: 'stopping' }, 503],
  ])('%s: alive, and ready is %d', async (health, ready) => {
    await using node = await setUp([], health);
    expect((await node.get('/livez')).status).toBe(200);
    const { status, body } = await node.get('/readyz');
    expect(status).toBe(ready);
    expect(JSON.parse(body)).toMatchObject({ state: health.kind, reason: expect.any(String) });
  });

  test.each<[NodeHealth, number]>([
    [{ kind: 'starting' }, 503],
    [{ kind: 'joining', problem: 'no member answers' }, 200],
    [{ kind: 'waiting', problem: 'no member confirms it' }, 200],
    [{ kind: 'serving' }, 200],
  ])('%s: started is %d', async (health, started) => {
    await using node = await setUp([], health);
    expect((await node.get('/startupz')).status).toBe(started);
  });

  test('starting: the reason has the progress', async () => {
    await using node = await setUp([], { kind: 'starting', replayedAtoms: 7_000 });
    expect((await node.get('/startupz')).body).toContain('7000 entries of the commit log are replayed');
  });
});

describe('queues as JSON', () => {
  test('come as a page, filtered as the query says', async () => {
    await using node = await setUp([stats('shop#mail', { available: 3 })]);
    const { body } = await node.get('/api/queues?regex=%5Eshop&group=shop&limit=5&page_token=abc&min_available=1');
    expect(JSON.parse(body)).toMatchObject({ queues: [{ queue: 'shop#mail', available: 3 }], nextPageToken: 'next' });
    const filter = { nameRegex: '^shop', group: 'shop', minAvailable: 1 };
    expect(node.asked).toEqual([{ filter, limit: 5, pageToken: 'abc' }]);
  });

  test.each([
    ['an unknown parameter', '/api/queues?nmae=x'],
    ['a parameter given twice', '/api/queues?regex=a&regex=b'],
    ['a limit that is no number', '/api/queues?limit=many'],
  ])('%s is a bad request', async (_what, path) => {
    await using node = await setUp();
    const { status, body } = await node.get(path);
    expect(status).toBe(400);
    expect(JSON.parse(body)).toMatchObject({ error: { reason: 'INVALID_ARGUMENT' } });
  });
});

describe('the HTTP server', () => {
  test('answers HEAD with the headers of GET', async () => {
    await using node = await setUp();
    const { status, headers, body } = await node.get('/livez', { method: 'HEAD' });
    expect({ status, body, length: headers.get('content-length') }).toEqual({ status: 200, body: '', length: '19' });
  });

  test.each([
    ['nothing there', '/nope', {}, 404, 'NOT_FOUND'],
    ['a method that would change something', '/api/queues', { method: 'POST', body: 'x' }, 405, 'METHOD_NOT_ALLOWED'],
  ])('refuses %s', async (_what, path, init, expected, reason) => {
    await using node = await setUp();
    const { status, headers, body } = await node.get(path, init);
    expect(status).toBe(expected);
    expect(JSON.parse(body)).toMatchObject({ error: { reason } });
    expect(headers.get('allow')).toBe(expected === 405 ? 'GET, HEAD' : null);
  });

  test('gives nothing away in its headers', async () => {
    await using node = await setUp();
    const { headers } = await node.get('/api/queues');
    expect(headers.has('server') || headers.has('x-powered-by')).toBe(false);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('refuses headers that are too long', async () => {
    await using node = await setUp();
    expect((await node.get('/api/queues', { headers: { 'x-long': 'x'.repeat(20_000) } })).status).toBe(431);
  });

  test('refuses bytes that are not HTTP', async () => {
    await using node = await setUp();
    const socket = connect(node.port, '127.0.0.1');
    socket.write('what is this\r\n\r\n');
    const reply = await text(socket);
    expect(reply).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(reply).toContain('\r\ncache-control: no-store\r\n');
  });

  test('refuses a request that does not arrive in time, soon after that time', { timeout: 10_000 }, async () => {
    const server = new HttpServer({ host: '127.0.0.1', port: 0, arrivalTimeoutMs: 50 }, NO_ROUTES);
    await using _stop = { [Symbol.asyncDispose]: () => server.stop() };
    const port = await server.start();
    const socket = connect(port, '127.0.0.1');
    socket.write('GET / HTTP/1.1\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
  });

  test('refuses a URL that is none', async () => {
    await using node = await setUp();
    const call = request({ port: node.port, path: '*', method: 'OPTIONS' });
    call.end();
    const [reply] = await once(call, 'response');
    expect(reply.statusCode).toBe(400);
  });

  test('passes the metrics on as they are', async () => {
    await using node = await setUp();
    const { headers, body } = await node.get('/metrics');
    expect(body).toBe('taskmaster_up 1\n');
    expect(headers.get('content-type')).toContain('version=0.0.4');
  });
});
