import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { Relay } from './relay.ts';

/** A DATA frame on stream 1 with a gRPC message of `bytes` bytes. */
function frame(bytes: number): Buffer {
  const whole = Buffer.alloc(9 + 5 + bytes);
  whole.writeUIntBE(5 + bytes, 0, 3);
  whole.writeUInt32BE(1, 5);
  whole.writeUInt32BE(bytes, 10);
  return whole;
}

test('a relay forwards everything and counts the messages of each direction', async () => {
  const request = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(10), frame(20)]);
  const heard = Promise.withResolvers<Buffer>();
  const server = createServer({ allowHalfOpen: true }, async (socket) => {
    heard.resolve(await buffer(socket));
    socket.end(frame(7));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await using relay = await Relay.to(`127.0.0.1:${(server.address() as AddressInfo).port}`);

  const [host = '', port = ''] = relay.endpoint.split(':');
  const client = connect({ host, port: Number(port), allowHalfOpen: true });
  client.end(request);
  expect(await buffer(client)).toEqual(frame(7));
  expect(await heard.promise).toEqual(request);
  expect(relay.toServer).toEqual({ messages: 2, bytes: 30 });
  expect(relay.toClient).toEqual({ messages: 1, bytes: 7 });
  server.close();
});
