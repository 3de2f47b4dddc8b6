import { readFileSync, statSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import type { TokenOptions } from '../../values/options.ts';

/** A credential, and where it may go. */
export interface Bearer {
  /** Whether it may be sent to this endpoint: not in plain text to another machine, unless the caller accepts that. */
  mayGoTo(endpoint: string): boolean;
  /** The value of the `authorization` header of a call. @throws Error if it may not go there, or cannot be read. */
  headerFor(endpoint: string): string;
}

/** A token in this form is safe in a header. */
const TOKEN = /^[\w\-.~+/]+=*$/;

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
  const mayGoTo = (endpoint: string): boolean => isEncrypted || insecure || isLoopback(endpoint);
  const refuse = (endpoint: string): never => {
    throw new TypeError(`token: it would go to ${endpoint} in plain text; use tls, or accept this with insecure`);
  };
  endpoints.filter((endpoint) => !mayGoTo(endpoint)).forEach(refuse);
  const header = tokenFile === undefined ? fromOption(token) : fromFile(tokenFile);
  return { mayGoTo, headerFor: (endpoint) => (mayGoTo(endpoint) ? header() : refuse(endpoint)) };
}

function isLoopback(endpoint: string): boolean {
  const host = endpoint.slice(0, endpoint.lastIndexOf(':')).toLowerCase();
  return ['localhost', '[::1]'].includes(host) || (isIPv4(host) && host.startsWith('127.'));
}

function fromOption(token: TokenOptions['token']): () => string {
  const read = typeof token === 'function' ? token : () => token ?? '';
  return () => headerOf(read());
}

function withEnvironment(options: TokenOptions, env: Readonly<Record<string, string | undefined>>): TokenOptions {
  if (options.token !== undefined || options.tokenFile !== undefined) return options;
  return { ...options, token: env.TASKMASTER_TOKEN || undefined, tokenFile: env.TASKMASTER_TOKEN_FILE || undefined };
}

/** Reads the file again when it has changed. */
function fromFile(path: string): () => string {
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
