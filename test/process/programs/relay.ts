// Forwards connections from one place to another. A place is the path of a Unix socket, which belongs to no network, or an
// address in the network of this program. So it leads from the network of the tests into another one, and back.
//
//     node relay.ts <socket path>=<host>:<port> <host>:<port>=<socket path> ...
import { connect, createServer, type Socket } from 'node:net';

type Place = { readonly path: string } | { readonly host: string; readonly port: number };

function placeOf(text: string): Place {
  const [, host, port] = /^([^/]*):(\d+)$/.exec(text) ?? [];
  return host === undefined ? { path: text } : { host, port: Number(port) };
}

for (const route of process.argv.slice(2)) {
  const [from = '', to = ''] = route.split('=');
  const target = placeOf(to);
  const server = createServer((inner) => {
    const outer: Socket = connect(target);
    inner.pipe(outer).pipe(inner);
    inner.on('error', () => outer.destroy());
    outer.on('error', () => inner.destroy());
    inner.on('close', () => outer.destroy());
    outer.on('close', () => inner.destroy());
  });
  await new Promise<void>((resolve) => server.listen(placeOf(from), resolve));
}
process.stdout.write('ready\n');
