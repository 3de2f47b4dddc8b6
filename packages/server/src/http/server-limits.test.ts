import { once } from 'node:events';
import { get as getSecurely } from 'node:https';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { Refusal } from '@taskmaster/engine/domain';
import { keptLog } from '@taskmaster/engine/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { toWireError } from '../calls/wire-errors.ts';
import { certificateFiles, TestAuthority } from '../testing/tls/certificates.ts';
import { Tls } from '../tls/tls.ts';
import type { Reply } from './reply.ts';
import { HttpServer, type HttpServerOptions, type Route } from './server.ts';

const LARGE = 'x'.repeat(8 * 1024 * 1024);
const reply = (body: string): Reply => ({ status: 200, type: 'text/plain', body });

interface Opened extends AsyncDisposable {
  readonly port: number;
  /** Replies of `/large` that were made. */
  readonly made: () => number;
  /** Resolves when one is being made. */
  readonly making: Promise<void>;
}

async function start(options: Partial<HttpServerOptions> = {}, tls?: Tls): Promise<Opened> {
  let made = 0;
  const { promise: making, resolve: beginsToMake } = Promise.withResolvers<void>();
  const routes = new Map<string, Route>([
    ['/livez', () => reply('alive')],
    ['/small', () => reply('small')],
    [
      '/large',
      () => {
        made++;
        beginsToMake();
        return reply(LARGE);
      },
    ],
  ]);
  const toError = () => toWireError(new Refusal('INTERNAL', 'no'));
  const server = new HttpServer({ host: '127.0.0.1', port: 0, ...options }, { routes, toWireError: toError, tls });
  const port = await server.start();
  return { port, made: () => made, making, [Symbol.asyncDispose]: () => server.stop() };
}

/** Opens a connection whose replies are not read. */
async function unread(port: number, bytes = ''): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  socket.pause();
  await once(socket, 'connect');
  socket.write(bytes);
  return socket;
}

const get = (port: number, path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}${path}`, { headers });

const GET_LARGE = 'GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n';

describe('replies that nobody reads', () => {
  const replies = { making: 2, makingForHost: 2, unreadBytes: 4 * 1024 * 1024, patienceMs: 60_000 };

  test('keep further replies from being made, but not those of probes', async () => {
    await using server = await start({ replies });
    const attackers = await Promise.all(Array.from({ length: 10 }, () => unread(server.port, GET_LARGE)));
    for (let probe = 0; probe < 5; probe++) expect((await get(server.port, '/livez')).status).toBe(200);
    // One of them is above the limit, and one was being made.
    expect(server.made()).toBeLessThanOrEqual(2);
    for (const attacker of attackers) attacker.destroy();
    expect(await (await get(server.port, '/small')).text()).toBe('small');
  });

  test('are given up when others wait', async () => {
    await using server = await start({ replies: { ...replies, patienceMs: 10 } });
    const attackers = await Promise.all(Array.from({ length: 10 }, () => unread(server.port, GET_LARGE)));
    expect(await (await get(server.port, '/small')).text()).toBe('small');
    for (const attacker of attackers) attacker.destroy();
  });

  test('are given up after a time in any case', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    await using server = await start({ replies, replyTimeoutMs: 60_000 });
    const attacker = await unread(server.port, GET_LARGE);
    const closed = once(attacker, 'close');
    await server.making;
    // By then the reply is being sent.
    await new Promise(setImmediate);
    vi.advanceTimersByTime(60_000);
    // Until then it waits.
    expect(await (await get(server.port, '/small')).text()).toBe('small');
    attacker.resume();
    await closed;
  });

  test('are made one after the other for a connection', async () => {
    await using server = await start();
    const attacker = await unread(server.port, GET_LARGE.repeat(5));
    expect((await get(server.port, '/livez')).status).toBe(200);
    expect(server.made()).toBe(1);
    attacker.destroy();
  });
});

test('a connection with too many requests at once is closed', async () => {
  await using server = await start();
  const attacker = await unread(server.port, GET_LARGE.repeat(100));
  const closed = once(attacker, 'close');
  attacker.resume();
  await closed;
  expect(server.made()).toBeLessThanOrEqual(1);
});

test('many requests of one connection, one after the other, leave nothing behind', async () => {
  await using server = await start();
  const warnings: Error[] = [];
  process.on('warning', (warning) => warnings.push(warning));
  for (let call = 0; call < 30; call++) expect(await (await get(server.port, '/small')).text()).toBe('small');
  await new Promise(setImmediate);
  expect(warnings).toEqual([]);
});

test('idle connections never keep a probe out', async () => {
  await using server = await start({ maxConnections: 20 });
  const idle = await Promise.all(Array.from({ length: 100 }, () => unread(server.port)));
  for (let probe = 0; probe < 5; probe++) expect((await get(server.port, '/livez')).status).toBe(200);
  for (const socket of idle) socket.destroy();
});

test.each([
  ['localhost', 200],
  ['LOCALHOST:7401', 200],
  ['127.0.0.1:1', 200],
  ['[::1]:7401', 200],
  ['node-1.example', 200],
  ['rebound.example', 421],
  ['127.0.0.1.rebound.example', 421],
])('the host %s is answered with %i', async (host, status) => {
  await using server = await start({ allowedHosts: ['Node-1.example'] });
  const socket = await unread(server.port, `GET /small HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
  let answer = '';
  socket.on('data', (bytes) => {
    answer += bytes;
  });
  socket.resume();
  await once(socket, 'close');
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  if (status === 421) expect(answer).toContain('UNKNOWN_HOST');
});

test.each([
  ['two hosts', 'host: localhost\r\nhost: rebound.example\r\n'],
  ['the same host twice', 'host: localhost\r\nHost: localhost\r\n'],
  ['two credentials', 'host: localhost\r\nauthorization: Bearer a\r\nauthorization: Bearer b\r\n'],
  ['two sites', 'host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-site: cross-site\r\n'],
])('a request with %s is refused, whatever it asks for', async (_case, headers) => {
  await using server = await start();
  for (const path of ['/small', '/livez']) {
    const socket = await unread(server.port, `GET ${path} HTTP/1.1\r\n${headers}connection: close\r\n\r\n`);
    expect(await text(socket.resume())).toMatch(/^HTTP\/1.1 400 .*more than once/s);
  }
  expect(server.made()).toBe(0);
});

test('a probe may ask under any name', async () => {
  await using server = await start();
  expect((await get(server.port, '/livez', { 'sec-fetch-site': 'cross-site' })).status).toBe(200);
  const socket = await unread(server.port, 'GET /livez HTTP/1.1\r\nhost: pod\r\nconnection: close\r\n\r\n');
  expect(await text(socket.resume())).toMatch(/^HTTP\/1.1 200 /);
});

test.each([
  [{}, 200],
  [{ 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }, 200],
  [{ 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }, 200],
  [{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }, 200],
  [{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' }, 403],
  [{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'script' }, 403],
  [{ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }, 403],
])('a browser that sends %o gets %i', async (headers, status) => {
  await using server = await start();
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = await unread(
    server.port,
    `GET /small HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n${lines.join('')}\r\n`,
  );
  let answer = '';
  socket.on('data', (bytes) => {
    answer += bytes;
  });
  socket.resume();
  await once(socket, 'close');
  expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
});

describe('a server that speaks TLS', () => {
  test('answers over TLS, and tells clients that speak plain text', async () => {
    const authority = await TestAuthority.create();
    await using files = await certificateFiles(await authority.sign({ name: 'node' }), authority.pem);
    const { certFile, keyFile, caFile } = files;
    const settings = {
      certFile,
      keyFile,
      caFile,
      minVersion: '1.3',
      peerName: '',
      clientCertificates: 'required',
    } as const;
    using tls = new Tls(settings, keptLog());
    await using server = await start({}, tls);
    const options = { ca: authority.pem, headers: { connection: 'close' } };
    const body = await new Promise<string>((resolve, reject) => {
      getSecurely(`https://127.0.0.1:${server.port}/small`, options, (response) =>
        text(response).then(resolve, reject),
      );
    });
    expect(body).toBe('small');
    const refused = await get(server.port, '/small');
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { reason: 'TLS_REQUIRED' } });
  });
});
