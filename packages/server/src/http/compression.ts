import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Reply } from './reply.ts';

/** A shorter body fits into one packet anyway. */
const LEAST_BYTES = 1024;

const compress = promisify(gzip);

/** Whether the caller takes gzip, by its `accept-encoding`. */
export const takesGzip = (header: string | string[] | undefined): boolean =>
  /(^|,)\s*gzip\s*(;\s*q=(1|0\.\d*[1-9]))?\s*(,|$)/.test(String(header ?? ''));

/**
 * The reply as it is sent: compressed if it may be, if this pays, and if the caller takes it. The replies of methods are never
 * compressed. They have payloads, and the size of a compressed reply tells a listener whether a text that he has put into a queue
 * is like a secret in the same reply (BREACH).
 */
export async function compressed(
  reply: Reply,
  acceptEncoding: string | string[] | undefined,
): Promise<Reply<string | Uint8Array>> {
  if (reply.isCompressible !== true) return reply;
  const headers = { ...reply.headers, vary: 'accept-encoding' };
  if (reply.body.length < LEAST_BYTES || !takesGzip(acceptEncoding)) return { ...reply, headers };
  const body = await compress(reply.body);
  return { ...reply, body, headers: { ...headers, 'content-encoding': 'gzip' } };
}
