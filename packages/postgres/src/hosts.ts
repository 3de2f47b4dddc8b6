import type pg from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';

/** `postgres://user:password@host:5432,other:5432/database?options`. The last `@` ends the password. */
const URL_FORM = /^(postgres(?:ql)?:\/\/)((?:[^/?#]*@)?)([^/?#]*)(.*)$/;

/** What `sslmode` may say, as PostgreSQL reads it. `prefer` and `allow` are refused: nothing would say that there is no TLS. */
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'];

/** A URL of a store that cannot be used. The message does not have the URL, which may have a password. */
class StoreUrlError extends Error {
  override readonly name = 'StoreUrlError';
}

/**
 * The servers of a URL, in order. Drivers for JavaScript read no URL with several hosts, or do not go on to the next one when one
 * is silent, so each host is a URL of its own here. `target_session_attrs` is read as `read-write`, which a store needs.
 */
export function hostsOf(url: string): [pg.ClientConfig, ...pg.ClientConfig[]] {
  const [, scheme = '', user = '', hosts = '', rest = ''] = URL_FORM.exec(url) ?? [];
  if (scheme === '') throw new StoreUrlError('the store must be a URL such as postgres://user@host:5432/database');
  // What is before the first / would count as a host, and the rest of the password as a database, which messages show.
  if (/^[^?]*@/.test(rest)) {
    throw new StoreUrlError(
      'the URL of the store has an @ behind its host: write / as %2F, and @ as %40, in a password',
    );
  }
  const [first = '', ...others] = hosts.split(',');
  const each = (host: string): pg.ClientConfig => {
    let config: pg.ClientConfig & { readonly target_session_attrs?: string; readonly sslmode?: string };
    try {
      config = toClientConfig(parse(`${scheme}${user}${host}${rest}`, { useLibpqCompat: true }));
    } catch (error) {
      const problem = error instanceof Error && !/invalid url/i.test(error.message) ? `: ${error.message}` : '';
      throw new StoreUrlError(`the URL of the store cannot be read${problem}`, { cause: error });
    }
    const wanted = config.target_session_attrs;
    if (wanted !== undefined && !['any', 'primary', 'read-write'].includes(wanted)) {
      throw new StoreUrlError(
        `target_session_attrs=${wanted} in the URL of the store: a store writes, so it must be read-write`,
      );
    }
    const { sslmode } = config;
    if (sslmode !== undefined && !SSL_MODES.includes(sslmode)) {
      throw new StoreUrlError(`sslmode=${sslmode} in the URL of the store: expected one of ${SSL_MODES.join(', ')}`);
    }
    return config;
  };
  return [each(first), ...others.map(each)];
}

/** A server, for people. */
export const shownHost = ({ host = 'localhost', port = 5432, database = '' }: pg.ClientConfig): string =>
  `${host}:${port}${database === '' ? '' : `/${database}`}`;
