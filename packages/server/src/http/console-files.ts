import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ConsoleFile } from '@taskmaster/console';
import { takesGzip } from './compression.ts';

/** By their paths below `/console/`, as in `index.html`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

export const CONSOLE_PATH = '/console/';
const ENTRY = 'index.html';

const headers: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  vary: 'accept-encoding',
};

/**
 * The file at a path of the server. Other names below `/console/` are views of the page, so they are the page itself. Undefined:
 * there is none.
 */
export function fileAt(files: ConsoleFiles, path: string): ConsoleFile | undefined {
  if (!path.startsWith(CONSOLE_PATH)) return undefined;
  const name = path.slice(CONSOLE_PATH.length);
  return files.get(name) ?? (name.includes('.') ? undefined : files.get(ENTRY));
}

/** Answers GET and HEAD. A browser that has the file already gets no body. */
export async function sendFile(file: ConsoleFile, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { etag, immutable, type, body } = file;
  const cacheControl = immutable ? 'public, max-age=31536000, immutable' : 'no-cache';
  const all = { ...headers, etag, 'cache-control': cacheControl };
  const known = request.headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, ''));
  if (known?.includes(etag) === true) {
    response.writeHead(304, all).end();
    return;
  }
  const compressed = takesGzip(request.headers['accept-encoding']) ? await file.gzip() : undefined;
  const sent = compressed ?? body;
  const encoding = compressed && { 'content-encoding': 'gzip' };
  response.writeHead(200, { ...all, ...encoding, 'content-type': type, 'content-length': sent.byteLength });
  response.end(request.method === 'HEAD' ? undefined : sent);
}
