import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import type { Access } from '../access/access.ts';
import { type CallerAccess, unlimitedAccess } from '../access/caller-access.ts';
import { credentialOf } from '../access/credential.ts';
import { certificateNames } from '../tls/certificate-names.ts';

/** Longer headers are not valid. */
const MOST_CHARACTERS = 8_192;
const BASIC = /^basic +([\w\-+/]+=*) *$/i;

/** The caller of a request. Without rules of access callers may do everything. */
export async function callerOf(request: IncomingMessage, access: Access | undefined): Promise<CallerAccess> {
  if (access === undefined) return unlimitedAccess;
  const { socket } = request;
  const names = socket instanceof TLSSocket ? certificateNames(socket) : [];
  return access.identify(credentialOf(asBearer(request.headers.authorization), names));
}

/** Browsers know no tokens, but passwords: the password is the token. The name may be any. */
function asBearer(header: string | undefined): string | undefined {
  const basic = header !== undefined && header.length <= MOST_CHARACTERS ? BASIC.exec(header)?.[1] : undefined;
  if (basic === undefined) return header;
  const text = Buffer.from(basic, 'base64').toString();
  const colon = text.indexOf(':');
  return colon === -1 ? header : `Bearer ${text.slice(colon + 1)}`;
}
