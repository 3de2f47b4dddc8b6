import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** A file of the pages. */
export interface ConsoleFile {
  /** Its media type. */
  readonly type: string;
  readonly body: Buffer;
  /** The body, compressed when it is first asked for. Undefined: compression does not pay. */
  gzip(): Promise<Buffer | undefined>;
  /** The value of an ETag header, with its quotes. */
  readonly etag: string;
  /** True: its name contains a hash of its contents, so it may be cached for ever. */
  readonly immutable: boolean;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** The pages are beside the compiled code. The sources stand beside `dist`. */
const FOLDERS = ['./ui/', '../dist/ui/'].map((folder) => fileURLToPath(new URL(folder, import.meta.url)));

let files: ReadonlyMap<string, ConsoleFile> | undefined;

/**
 * The files of the console by their paths, as in `index.html` and `assets/index-BpXk3.js`. They are read once. Empty if the pages
 * have not been built, which can only be in a workspace.
 */
export function consoleFiles(): ReadonlyMap<string, ConsoleFile> {
  files ??= read();
  return files;
}

function read(): Map<string, ConsoleFile> {
  const folder = FOLDERS.find((one) => existsSync(join(one, 'index.html')));
  const found = new Map<string, ConsoleFile>();
  if (folder === undefined) return found;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(folder.length).split(sep).join('/');
    found.set(name, fileOf(name, readFileSync(path)));
  }
  return found;
}

function fileOf(name: string, body: Buffer): ConsoleFile {
  const type = TYPES[extname(name)];
  if (type === undefined) throw new Error(`the console has a file of an unknown type: ${name}`);
  let compressed: Promise<Buffer | undefined> | undefined;
  return {
    type,
    body,
    gzip: () => (compressed ??= compress(body)),
    etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
    immutable: name.startsWith('assets/'),
  };
}

async function compress(body: Buffer): Promise<Buffer | undefined> {
  const compressed = await promisify(gzip)(body, { level: 9 });
  return compressed.byteLength < body.byteLength ? compressed : undefined;
}
