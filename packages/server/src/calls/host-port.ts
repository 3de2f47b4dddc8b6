/** `host:port`, IPv6 addresses in brackets. */
export function hostPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

const MAPPED_IPV4 = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/;

/** A peer as grpc-js names it (address, colon, port), fit to be shown. */
export function peerAddress(peer: string): string {
  const colon = peer.lastIndexOf(':');
  const port = Number(peer.slice(colon + 1));
  if (colon < 0 || !Number.isInteger(port)) return peer;
  return hostPort(peer.slice(0, colon).replace(MAPPED_IPV4, ''), port);
}

/** Whether a host is this machine itself. Names other than `localhost` are not looked up. */
export function isLoopbackHost(host: string): boolean {
  const address = host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(MAPPED_IPV4, '')
    .toLowerCase();
  return address === 'localhost' || address === '::1' || /^127(\.\d{1,3}){3}$/.test(address);
}

/** Whether a peer as grpc-js names it is on this machine. */
export function isLoopbackPeer(peer: string): boolean {
  return isLoopbackHost(peer.slice(0, peer.lastIndexOf(':')));
}
