import type { TLSSocket } from 'node:tls';

/**
 * The names in the certificate of a client: the common name, DNS names and URIs. None if it shows no certificate, or one that no
 * CA of this server has signed.
 */
export function certificateNames(socket: TLSSocket): readonly string[] {
  if (!socket.authorized) return [];
  const { subject, subjectaltname = '' } = socket.getPeerCertificate();
  const { CN } = subject ?? {};
  const common = CN === undefined ? [] : [CN].flat();
  // `DNS:a.example, URI:spiffe://b`. Values with a comma are quoted and do not count.
  const others = subjectaltname.split(', ').flatMap((entry) => /^(?:DNS|URI):([^"]+)$/.exec(entry)?.[1] ?? []);
  return [...new Set([...common, ...others])];
}
