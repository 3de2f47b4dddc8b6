import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/**
 * Whether a browser may ask for a host. A page of another site can make a browser send requests to this server under a name of
 * its own (DNS rebinding). So a name must be known; an address always is, because a page cannot rebind it.
 */
export function isAllowedHost(header: string | undefined, allowed: ReadonlySet<string>): boolean {
  if (header === undefined) return true; // HTTP/1.0, which no browser speaks.
  const host = header.toLowerCase().replace(/:\d+$/, '');
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  return isIP(bare) !== 0 || host === 'localhost' || allowed.has(host) || allowed.has('*');
}

/** Whether a request comes from a page of another site. A link that a user follows does not. */
export function isCrossSite(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest } = headers;
  if (site === undefined || site === 'same-origin' || site === 'none') return false;
  return !(mode === 'navigate' && dest === 'document');
}
