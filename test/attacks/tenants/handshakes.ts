import { connect } from 'node:tls';

/* Opens TLS connections as fast as it can and leaves them: `handshakes.ts PORT IN_FLIGHT`. Prints their number every 200 ms. */

const [port, inFlight] = process.argv.slice(2).map(Number);
let completed = 0;

function open(): void {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  const next = (): void => {
    socket.destroy();
    open();
  };
  socket.once('secureConnect', () => {
    completed++;
    // A connection that is destroyed at once never sends its last message, and the server sees no handshake.
    socket.end(next);
  });
  socket.once('error', () => setTimeout(next, 10));
}
for (let at = 0; at < (inFlight ?? 1); at++) open();
setInterval(() => console.log(completed), 200);
