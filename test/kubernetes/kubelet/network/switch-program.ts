// Runs in the network namespace in which the links of all pods meet.
//
//     node switch-program.ts <directory>
//
// It plays the addresses of Services: it listens on them and forwards each connection to one of their targets. Each line of its
// standard input is the whole table, as JSON. It also opens the network to processes outside: a connection to the Unix socket
// `dial` in the directory begins with a line `host:port`, gets the answer `ok`, and is then connected to that address.
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { SwitchTable } from './switch.ts';

interface Listener {
  readonly server: Server;
  targets: readonly string[];
}

const [directory = '.'] = process.argv.slice(2);
const listeners = new Map<string, Listener>();

/** Connects to `host:port`, or to a Unix socket if it is a path. */
function connectTo(target: string): Socket {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(target) ?? [];
  return target.startsWith('/') ? connect(target) : connect(Number(port), host);
}

function joinSockets(inner: Socket, outer: Socket): void {
  for (const [socket, other] of [
    [inner, outer],
    [outer, inner],
  ] as const) {
    socket.setNoDelay(true);
    socket.on('error', () => other.destroy());
    socket.on('close', () => other.destroy());
  }
  inner.pipe(outer).pipe(inner);
}

async function listen(key: string, targets: readonly string[]): Promise<void> {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(key) ?? [];
  const server = createServer((inner) => {
    const { targets: current } = listener;
    const target = current[Math.floor(Math.random() * current.length)];
    if (target === undefined) inner.destroy();
    else joinSockets(inner, connectTo(target));
  });
  const listener: Listener = { server, targets };
  listeners.set(key, listener);
  server.listen(Number(port), host);
  await once(server, 'listening');
}

/** A Service without targets refuses connections. */
async function apply(table: SwitchTable): Promise<void> {
  const wanted = new Map(table.filter(({ targets }) => targets.length > 0).map((row) => [row.listen, row.targets]));
  for (const [key, { server }] of listeners) {
    if (wanted.has(key)) continue;
    listeners.delete(key);
    // Established connections stay, as they do when a Service changes.
    server.close();
  }
  for (const [key, targets] of wanted) {
    const known = listeners.get(key);
    if (known) known.targets = targets;
    else await listen(key, targets);
  }
}

const dial = createServer((outside) => {
  outside.on('error', () => outside.destroy());
  outside.once('data', (first: Buffer) => {
    const end = first.indexOf('\n');
    outside.pause();
    if (end !== first.length - 1) {
      outside.destroy();
      return;
    }
    const inside = connectTo(first.toString('latin1', 0, end));
    inside.once('error', () => outside.destroy());
    inside.once('connect', () => {
      outside.write('ok\n');
      joinSockets(outside, inside);
    });
  });
});
dial.listen(join(directory, 'dial'));
await once(dial, 'listening');

process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  await apply(JSON.parse(line) as SwitchTable);
  process.stdout.write('applied\n');
}
process.exit(0);
