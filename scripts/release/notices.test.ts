import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bundledPackages } from '../../packages/console/scripts/bundled-packages.ts';
import { root } from '../../test/support/paths.ts';
import { temporaryDirectory } from '../../test/support/temporary-directory.ts';
import { bundleImport } from './bundle.ts';
import { noticesOf } from './notices.ts';

const server = join(root, 'packages', 'server');
const pages = join(root, 'packages', 'console');

describe('the bundle of swim', () => {
  test('requires only modules of Node', async () => {
    const { code } = await bundleImport(server, '#swim');
    const required = new Set([...code.matchAll(/\brequire\("([^"]+)"\)/g)].map(([, name]) => name));
    // Loaded only if msgpackr's native part is wanted, which the bundle switches off.
    required.delete('msgpackr-extract');
    const modules = ['assert', 'dgram', 'events', 'fs', 'module', 'net', 'node:crypto', 'stream', 'tty', 'url', 'util'];
    expect([...required].toSorted()).toEqual(modules);
    expect(code).toContain(`nativeAccelerationDisabled = "true".toLowerCase() === "true"`);
  });

  test('has the licences of its packages beside it', async () => {
    const { packages } = await bundleImport(server, '#swim');
    const notices = await noticesOf(packages);
    expect(notices.match(/^\S+ \d+\.\d+\.\d+ \(MIT\)$/gm)).toEqual([
      'clone 1.0.4 (MIT)',
      'debug 2.6.9 (MIT)',
      'ms 2.0.0 (MIT)',
      'msgpackr 2.1.3 (MIT)',
      'swim 0.6.0 (MIT)',
    ]);
    await expect(notices).toMatchFileSnapshot(join(server, 'THIRD-PARTY-NOTICES'));
  });
});

test('the pages of the console have the licences of their packages beside them', async () => {
  const folders = bundledPackages.map((name) => join(pages, 'node_modules', name));
  const withFile = folders.filter((folder) => existsSync(join(folder, 'LICENSE')));
  const withHeaders = folders.filter((folder) => !withFile.includes(folder));
  const headers = await Promise.all(withHeaders.map((folder) => licenceHeaders(join(folder, 'dist', 'esm', 'wire'))));
  const notices = `${await noticesOf(withFile)}\n${headers.join('\n')}`;
  expect(notices.match(/^\S+ \d+\.\d+\.\d+ \(MIT\)$|^Copyright \d.*$/gm)).toEqual([
    'preact 11.2.0 (MIT)',
    'uplot 1.6.32 (MIT)',
    expect.stringMatching(/^Copyright 2008 Google Inc\. /),
    expect.stringMatching(/^Copyright .* Buf Technologies, Inc\.$/),
  ]);
  await expect(notices).toMatchFileSnapshot(join(pages, 'THIRD-PARTY-NOTICES'));
});

/** The comments about licences in two files of a folder, which has no others: the package has no file with its licence. */
async function licenceHeaders(folder: string): Promise<string> {
  const files = ['binary-encoding.js', 'varint.js'];
  const texts = await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')));
  const comments = texts.flatMap((text) => /^(?:\/\/.*\n)+/.exec(text)?.[0] ?? []);
  const found = new Set(comments.map((comment) => comment.replaceAll(/^\/\/ ?/gm, '').trim()));
  return `${[...found].toSorted().join('\n\n')}\n`;
}

describe('notices', () => {
  async function notices(manifest: object, files: Readonly<Record<string, string>> = {}): Promise<string> {
    await using directory = await temporaryDirectory();
    const folder = join(directory.path, 'node_modules', 'one');
    await mkdir(folder, { recursive: true });
    const all = { 'package.json': JSON.stringify({ name: 'one', version: '1.0.0', ...manifest }), ...files };
    for (const [name, text] of Object.entries(all)) await writeFile(join(folder, name), text);
    return await noticesOf([folder]);
  }

  test.each(['LICENSE', 'LICENCE', 'license.md', 'License.txt'])('take the licence from %s', async (name) => {
    const text = await notices({ license: 'ISC' }, { [name]: 'Do as you like.\r\n' });
    expect(text).toContain('\n\none 1.0.0 (ISC)\n---------------\n\nDo as you like.\n');
  });

  test('refuse a package whose licence is unknown', async () => {
    await expect(notices({ author: 'Ada' })).rejects.toThrow('one 1.0.0 names no licence');
    await expect(notices({ license: 'ISC', author: 'Ada' })).rejects.toThrow('one 1.0.0 contains no licence');
    await expect(notices({ license: 'MIT' })).rejects.toThrow('one 1.0.0 contains no licence');
    expect(await notices({ license: 'MIT', author: { name: 'Ada' } })).toContain('Copyright (c) Ada\n\nPermission is');
  });

  test('leave out packages of this repository', async () => {
    expect(await notices({ private: true })).not.toContain('one 1.0.0');
  });
});
