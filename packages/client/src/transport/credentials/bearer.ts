import { readFileSync, statSync } from 'node:fs';
import type { TokenOptions } from '../../values/options.ts';

/** The value of the `authorization` header of a call. */
export type Bearer = () => string;

/** A token in this form is safe in a header. */
const TOKEN = /^[\w\-.~+/]+=*$/;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\]|::1)$/i;

/**
 * The credential of a client: its options, or TASKMASTER_TOKEN or TASKMASTER_TOKEN_FILE. Undefined: it has none.
 * @throws TypeError for wrong options, and before a token would travel in plain text to another machine.
 */
export function bearerOf(
  options: TokenOptions,
  endpoints: readonly string[],
  isEncrypted: boolean,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Bearer | undefined {
  const { token, tokenFile, insecure = false } = withEnvironment(options, env);
  if (token !== undefined && tokenFile !== undefined) throw new TypeError('token: give token or tokenFile, not both');
  if (token === undefined && tokenFile === undefined) return undefined;
  const open = endpoints.find((endpoint) => !LOOPBACK.test(endpoint.slice(0, endpoint.lastIndexOf(':'))));
  if (open !== undefined && !isEncrypted && !insecure) {
    throw new TypeError(`token: it would go to ${open} in plain text; use tls, or accept this with insecure`);
  }
  if (tokenFile !== undefined) return fromFile(tokenFile);
  const read = typeof token === 'function' ? token : () => token ?? '';
  return () => headerOf(read());
}

function withEnvironment(options: TokenOptions, env: Readonly<Record<string, string | undefined>>): TokenOptions {
  if (options.token !== undefined || options.tokenFile !== undefined) return options;
  return { ...options, token: env.TASKMASTER_TOKEN || undefined, tokenFile: env.TASKMASTER_TOKEN_FILE || undefined };
}

/** Reads the file again when it has changed. */
function fromFile(path: string): Bearer {
  let seen = '';
  let header = '';
  return () => {
    const { ino, mtimeMs, size } = statSync(path);
    const now = `${ino}.${mtimeMs}.${size}`;
    if (now !== seen) {
      header = headerOf(readFileSync(path, 'utf8').trim());
      seen = now;
    }
    return header;
  };
}

/** The message does not show the token. */
function headerOf(token: string): string {
  if (!TOKEN.test(token)) throw new TypeError('token: must be letters, digits and -._~+/, in one line');
  return `Bearer ${token}`;
}
