import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { connect } from '../../api/connect.ts';
import { FakeServer } from '../../testing/fake-server.ts';
import { usesHttpProxy } from './http-proxy.ts';

const PROXY = 'http://proxy.example:3128';

describe('the proxy of the environment', () => {
  test.each([
    ['queue.example:7400', { http_proxy: PROXY }, true],
    ['queue.example:7400', { https_proxy: PROXY }, true],
    ['queue.example:7400', { grpc_proxy: PROXY }, true],
    ['dns:///queue.example:7400', { http_proxy: PROXY }, true],
    ['10.1.2.3:7400', { http_proxy: PROXY }, true],
    ['[fd00::1]:7400', { http_proxy: PROXY }, true],
    ['queue.example:7400', {}, false],
    // As other programs do, because HTTP_PROXY may come from a request to a CGI program.
    ['queue.example:7400', { HTTP_PROXY: PROXY }, false],
  ])('%s with %j: %s', (endpoint, env, expected) => {
    expect(usesHttpProxy(endpoint, env)).toBe(expected);
  });

  test.each([
    'localhost:7400',
    'LOCALHOST:7400',
    'node.localhost:7400',
    '127.0.0.1:7400',
    '127.8.9.10:7400',
    '[::1]:7400',
    '[0:0:0:0:0:0:0:1]:7400',
    '[::ffff:127.0.0.1]:7400',
    'dns:///localhost:7400',
    'ipv4:127.0.0.1:7400',
    'ipv6:[::1]:7400',
    'unix:/run/taskmaster.sock',
  ])('is not between programs of one machine: %s', (endpoint) => {
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY })).toBe(false);
  });

  test.each([
    ['queue.example', true],
    ['example', true],
    ['.example', true],
    ['*.example', true],
    ['QUEUE.Example', true],
    ['other, queue.example', true],
    ['other queue.example', true],
    ['queue.example:7400', true],
    ['*', true],
    ['queue.example:7401', false],
    // A part of a label is another domain.
    ['ueue.example', false],
    ['xample', false],
    // An empty entry is a slip, and not an exception for all.
    ['other,', false],
    ['', false],
  ])('has exceptions by name: no_proxy=%s: %s', (list, excepted) => {
    expect(usesHttpProxy('queue.example:7400', { http_proxy: PROXY, no_proxy: list })).toBe(!excepted);
  });

  test.each([
    ['10.1.2.3:7400', '10.1.2.3', true],
    ['10.1.2.3:7400', '10.0.0.0/8', true],
    ['10.1.2.3:7400', '10.1.2.3:7400', true],
    ['10.1.2.3:7400', '11.0.0.0/8', false],
    ['10.1.2.3:7400', '2.3', false],
    ['10.1.2.3:7400', '10.0.0.0/64', false],
    ['[fd00::1]:7400', 'fd00::1', true],
    ['[fd00::1]:7400', '[fd00::1]', true],
    ['[fd00::1]:7400', 'fd00::/8', true],
    ['[fd00::1]:7400', 'fe00::/8', false],
  ])('has exceptions by address: %s with no_proxy=%s: %s', (endpoint, list, excepted) => {
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, no_proxy: list })).toBe(!excepted);
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, NO_PROXY: list })).toBe(!excepted);
    expect(usesHttpProxy(endpoint, { http_proxy: PROXY, no_grpc_proxy: list, no_proxy: '*' })).toBe(!excepted);
  });
});

/** An HTTP proxy that connects to one port whatever it is asked for, or refuses. */
async function startProxy(target: number | undefined) {
  const asked: string[] = [];
  const server: Server = createServer();
  server.on('connect', (request, socket) => {
    asked.push(request.url ?? '');
    if (target === undefined) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const onward = connectTcp(target, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
    socket.on('close', () => onward.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { asked, url, [Symbol.dispose]: () => void server.close() };
}

describe('connect', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  const portOf = ({ endpoint }: FakeServer): number => Number(endpoint.split(':').at(-1));

  test('goes directly to this machine, whatever the environment says', async () => {
    await using server = await FakeServer.start();
    using proxy = await startProxy(undefined);
    for (const name of ['http_proxy', 'https_proxy', 'grpc_proxy']) vi.stubEnv(name, proxy.url);
    await using client = await connect(server.endpoint);
    await client.queue('q').enqueue(1);
    expect(proxy.asked).toEqual([]);
  });

  test('goes through the proxy to other machines', async () => {
    await using server = await FakeServer.start();
    using proxy = await startProxy(portOf(server));
    vi.stubEnv('http_proxy', proxy.url);
    await using client = await connect('queue.invalid:7400');
    await client.queue('q').enqueue(1);
    expect(proxy.asked).toEqual(['queue.invalid:7400']);
  });

  test('says which proxy did not connect it', async () => {
    using proxy = await startProxy(undefined);
    const log = vi.spyOn(console, 'error').mockReturnValue();
    vi.stubEnv('http_proxy', proxy.url);
    const connecting = connect({ endpoints: 'queue.invalid:7400', connectTimeout: 500 });
    const text = `the proxy ${new URL(proxy.url).host} of http_proxy did not connect to it`;
    await expect(connecting).rejects.toThrow(text);
    await expect(connecting).rejects.not.toThrow('undefined');
    expect(proxy.asked.length).toBeGreaterThan(0);
    expect(log).toHaveBeenCalled();
  });

  test('without httpProxy goes directly, too', async () => {
    using proxy = await startProxy(undefined);
    vi.stubEnv('http_proxy', proxy.url);
    const connecting = connect({ endpoints: 'queue.invalid:7400', connectTimeout: 200, httpProxy: false });
    await expect(connecting).rejects.toThrow('no endpoint can be reached');
    expect(proxy.asked).toEqual([]);
  });
});
