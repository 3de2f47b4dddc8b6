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

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** A server that shows these queues, and the requests it passed on. */
async function setUp(queues: readonly QueueStats[] = [], health: NodeHealth = { kind: 'serving' }) {
  const asked: unknown[] = [];
  const totals = { queues: queues.length, available: queues.length, leased: 0, delayed: 0, waiting: 0, completed: 0 };
  const deps: NodeRoutesDeps = {
    health: () => health,
    facts: () => ({ version: '1.2.3', grpcAddress: '127.0.0.1:7400', uptimeMs: 61_000 }),
    wall: () => 0,
    me: () => ({ status: 200, type: 'application/json', body: '{}' }),
    overview: () => ({ status: 200, type: 'application/json', body: '{}' }),
    reads: {
      readTask: async () => undefined,
      listSchedules: async ({ group }) => {
        const metadata = { holder: group === 'lost' ? 'c:7400' : 'b:7400' };
        throw new Refusal('NOT_HOLDER', 'this node does not hold it', { metadata });
      },
      listQueues: async (given) => {
        asked.push(given);
        if (Number.isNaN(given.limit)) throw new Refusal('INVALID_ARGUMENT', 'limit is NaN');
        return { queues: [...queues], nextPageToken: 'next', unreachable: [] };
      },
      getQueueStats: async (given) => {
        asked.push(given);
        if (given.filter?.group === 'elsewhere' || given.filter?.group === 'lost') {
          const metadata = { holder: given.filter.group === 'lost' ? 'c:7400' : 'b:7400' };
          throw new Refusal('NOT_HOLDER', 'this node does not hold it', { metadata });
        }
        if (given.filter?.nameRegex === '(') throw new Refusal('INVALID_REGEX', 'filter.name_regex is "("');
        return { queues: [...queues], totals, unreachable: [] };
      },
    },
    metrics: { contentType: 'text/plain; version=0.0.4', text: async () => 'taskmaster_up 1\n' },
    toWireError: (thrown) => toWireError(thrown as Refusal),
    httpOf: (rpcAddress) => (rpcAddress === 'b:7400' ? 'b:7401' : undefined),
  };
  const server = new HttpServer({ host: '127.0.0.1', port: 0 }, { ...deps, routes: nodeRoutes(deps) });
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

describe('the page of queues', () => {
  test.each(['/', '/schedules'])(
    '%s links to the page of the holder, if another node holds the group',
    async (path) => {
      await using node = await setUp();
      const { status, body } = await node.get(`${path}?group=elsewhere&regex=%26%22%3E`);
      expect(status).toBe(409);
      expect(body).toContain(
        `<a href="//b:7401${path}?group=elsewhere&amp;regex=%26%22%3E">Open this page at b:7401</a>`,
      );
      // The holder does not gossip now.
      expect((await node.get(`${path}?group=lost`)).body).not.toContain('Open this page');
    },
  );

  test('shows names unchanged, whatever characters they have', async () => {
    await using node = await setUp([stats('<script>alert(1)</script>#"&\''), stats('a\u202eb\u0007')]);
    const { body } = await node.get('/');
    expect(body).not.toContain('<script>alert');
    expect(body).toContain('&lt;script&gt;alert(1)&lt;/script&gt;#</span>&quot;&amp;&#39;');
    expect(body).toContain('a\\u{202e}b\\u{7}');
  });

  test('says of a paused queue why, by whom, since when and until when', async () => {
    const pause = {
      queues: 'shop#*',
      reason: 'the <shop> is down',
      pausedBy: 'ann',
      sinceUnixMs: 0,
      untilUnixMs: 60_000,
    };
    await using node = await setUp([stats('shop#mail', { pause })]);
    const { body } = await node.get('/');
    expect(body).toContain(
      'paused by ann since 1970-01-01T00:00:00.000Z until 1970-01-01T00:01:00.000Z: the &lt;shop&gt; is down',
    );
    expect(JSON.parse((await node.get('/api/queues')).body).queues[0].pause).toEqual(pause);
  });

  test('says of a queue that a limit holds back by which, since when and how many are leased', async () => {
    const heldBy = {
      queues: 'shop#<m*>',
      maxLeased: 5,
      rate: { tasks: 100, perMs: 60_000, burst: 10 },
      limitedBy: 'ann',
      sinceUnixMs: 0,
      leased: 6,
      usedUpSinceUnixMs: 60_000,
      keys: '',
      heldKeys: [],
      heldKeyCount: 0,
      heldTasks: 0,
    };
    await using node = await setUp([stats('shop#mail', { heldBy: [heldBy, { ...heldBy, queues: 'shop#*' }] })]);
    const { body } = await node.get('/');
    const text =
      'held back since 1970-01-01T00:01:00.000Z by the limit of shop#&lt;m*&gt;: 6 of at most 5 leased, at most 100 in 1m';
    expect(body).toContain(text);
    expect(body).toContain('by the limit of shop#*: 6');
    expect(JSON.parse((await node.get('/api/queues')).body).queues[0].heldBy).toHaveLength(2);
  });

  test('says of a queue with full keys how many tasks stand behind them, and since when', async () => {
    const held = { heldKeys: 2, heldTasks: 1500, heldSinceUnixMs: 60_000 };
    await using node = await setUp([stats('shop#mail', held)]);
    const text = 'limits hold back 1,500 tasks of 2 keys since 1970-01-01T00:01:00.000Z';
    expect((await node.get('/')).body).toContain(text);
    expect(JSON.parse((await node.get('/api/queues')).body).queues[0]).toMatchObject(held);
  });

  test('echoes a filter without letting it out of its attribute', async () => {
    await using node = await setUp([stats('a')]);
    const { body } = await node.get('/?regex=%22%3E%3Cimg%20src%3Dx%3E&sort=%22%3E%3Cb%3E');
    expect(body).toContain('value="&quot;&gt;&lt;img src=x&gt;"');
    expect(body).not.toMatch(/<img|<b>/);
  });

  test('allows nothing but its own style and script', async () => {
    await using node = await setUp();
    const { headers, body } = await node.get('/');
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('unsafe');
    expect(body).not.toMatch(/ style=| on\w+=|https?:/);
  });

  test.each([
    ['by name at first', '/', ['a', 'b', 'c']],
    ['by a figure, largest first', '/?sort=available&order=descending', ['b', 'c', 'a']],
    ['by a figure, smallest first', '/?sort=available&order=ascending', ['a', 'c', 'b']],
    ['by name, last first', '/?sort=queue&order=descending', ['c', 'b', 'a']],
    ['by name when it knows no such column', '/?sort=colour', ['a', 'b', 'c']],
  ])('sorts %s', async (_how, path, expected) => {
    await using node = await setUp([
      stats('a', { available: 1 }),
      stats('b', { available: 30 }),
      stats('c', { available: 2 }),
    ]);
    const { body } = await node.get(path);
    expect([...body.matchAll(/<bdi>(\w)<\/bdi>/g)].map(([, name]) => name)).toEqual(expected);
  });

  test('says how to begin when nothing is queued, and that a filter hides everything', async () => {
    await using node = await setUp();
    expect((await node.get('/')).body).toContain('Nothing queued yet');
    expect((await node.get('/?regex=x')).body).toContain('No queue matches');
  });

  test('explains a filter that is refused', async () => {
    await using node = await setUp([stats('a')]);
    const { status, body } = await node.get('/?regex=(');
    expect(status).toBe(400);
    expect(body).toContain('filter.name_regex is &quot;(&quot;');
  });

  test('says when new work is not taken', async () => {
    await using node = await setUp([stats('a')], { kind: 'full' });
    expect((await node.get('/')).body).toContain('The disk is full');
  });
});

const NO_ROUTES = { routes: new Map(), toWireError: (thrown: unknown) => toWireError(thrown as Refusal) };

describe('the HTTP server', () => {
  test('answers HEAD with the headers of GET', async () => {
    await using node = await setUp();
    const { status, headers, body } = await node.get('/livez', { method: 'HEAD' });
    expect({ status, body, length: headers.get('content-length') }).toEqual({ status: 200, body: '', length: '19' });
  });

  test.each([
    ['nothing there', '/nope', {}, 404, 'NOT_FOUND'],
    ['a method that would change something', '/', { method: 'POST', body: 'x' }, 405, 'METHOD_NOT_ALLOWED'],
  ])('refuses %s', async (_what, path, init, expected, reason) => {
    await using node = await setUp();
    const { status, headers, body } = await node.get(path, init);
    expect(status).toBe(expected);
    expect(JSON.parse(body)).toMatchObject({ error: { reason } });
    expect(headers.get('allow')).toBe(expected === 405 ? 'GET, HEAD' : null);
  });

  test('gives nothing away in its headers', async () => {
    await using node = await setUp();
    const { headers } = await node.get('/');
    expect(headers.has('server') || headers.has('x-powered-by')).toBe(false);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  test('refuses headers that are too long', async () => {
    await using node = await setUp();
    expect((await node.get('/', { headers: { 'x-long': 'x'.repeat(20_000) } })).status).toBe(431);
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
