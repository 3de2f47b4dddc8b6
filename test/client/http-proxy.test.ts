import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { connect } from '@taskmaster/client';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { TestNode } from './support/test-node.ts';

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

  const portOf = ({ endpoint }: TestNode): number => Number(endpoint.split(':').at(-1));

  test('goes directly to this machine, whatever the environment says', async () => {
    await using server = await TestNode.start();
    using proxy = await startProxy(undefined);
    for (const name of ['http_proxy', 'https_proxy', 'grpc_proxy']) vi.stubEnv(name, proxy.url);
    await using client = await connect(server.endpoint);
    await client.queue('q').enqueue(1);
    expect(proxy.asked).toEqual([]);
  });

  test('goes through the proxy to other machines', async () => {
    await using server = await TestNode.start();
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
