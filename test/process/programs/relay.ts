// Forwards connections from Unix sockets, which belong to no network, to addresses in the network that it runs in.
//
//     node relay.ts <socket path>=<host>:<port> ...
import { connect, createServer } from 'node:net';

for (const route of process.argv.slice(2)) {
  const [, path = '', host = '', port = ''] = /^(.*)=(.*):(\d+)$/.exec(route) ?? [];
  const server = createServer((inner) => {
    const outer = connect(Number(port), host);
    inner.pipe(outer).pipe(inner);
    inner.on('error', () => outer.destroy());
    outer.on('error', () => inner.destroy());
    inner.on('close', () => outer.destroy());
    outer.on('close', () => inner.destroy());
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
}
process.stdout.write('ready\n');
