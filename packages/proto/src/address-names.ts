import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/*
 * TLS sends the name of the server, and an address is no name: Node.js warns of it (DEP0123). gRPC sends one nevertheless, unless
 * it gets a name. So an address gets one in the domain `invalid`, and certificates are checked for the address.
 */

const NAME = /^ip([46])-([0-9a-f-]+)\.invalid$/;

/** The name to send to an endpoint that is an address with a port. Undefined: the endpoint has a name. */
export function addressName(endpoint: string): string | undefined {
  const [, bracketed, plain] = /^(?:ipv[46]:)?(?:\[([^\]]+)\]|([^:]+)):\d+$/i.exec(endpoint) ?? [];
  const address = (bracketed ?? plain ?? '').toLowerCase();
  const version = isIP(address);
  return version === 0 || address.includes('%') ? undefined : `ip${version}-${address.replace(/[.:]/g, '-')}.invalid`;
}

/** Checks the certificate of a server for a name, or for the address that the name stands for. */
export function checkAddressOrName(name: string, certificate: PeerCertificate): Error | undefined {
  const [, version, parts = ''] = NAME.exec(name) ?? [];
  const host = version === undefined ? name : parts.replaceAll('-', version === '4' ? '.' : ':');
  return checkServerIdentity(host, certificate);
}
