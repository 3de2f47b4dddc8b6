import type { Socket } from 'node:net';

/** The first byte of a TLS connection: the type of a handshake record. No text begins with it. */
const HANDSHAKE = 0x16;

/** Tells whether a connection speaks TLS, when its first byte has come. The byte stays in the socket. */
export function onFirstByte(socket: Socket, tell: (speaksTls: boolean) => void): void {
  socket.once('readable', () => {
    const first = socket.read() as Buffer | null;
    // The connection has ended, or the event came early.
    if (first === null) {
      if (!socket.readableEnded && !socket.destroyed) onFirstByte(socket, tell);
      return;
    }
    socket.unshift(first);
    tell(first[0] === HANDSHAKE);
  });
}
