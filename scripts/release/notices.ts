import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly author?: string | { readonly name: string };
  readonly private?: boolean;
}

const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

/**
 * The licences of bundled packages, as text for the file `THIRD-PARTY-NOTICES`. Takes the folders of the packages. Leaves out
 * private packages: they are part of this repository. Rejects if a package has no known licence.
 */
export async function noticesOf(folders: readonly string[]): Promise<string> {
  const notices = await Promise.all(folders.map(noticeOf));
  const sections = notices.filter((notice) => notice !== undefined).toSorted();
  return `This package contains code of the packages below. Their licences follow.\n\n${sections.join('\n\n')}\n`;
}

async function noticeOf(folder: string): Promise<string | undefined> {
  const manifest: Manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  if (manifest.private) return undefined;
  const { name, version, license } = manifest;
  if (license === undefined) throw new Error(`${name} ${version} names no licence`);
  const title = `${name} ${version} (${license})`;
  return `${title}\n${'-'.repeat(title.length)}\n\n${await licenceOf(folder, manifest)}`;
}

/** The licence file of a package. A package without one may name MIT and its author in its manifest. */
async function licenceOf(folder: string, { name, version, license, author }: Manifest): Promise<string> {
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  if (file !== undefined) return (await readFile(join(folder, file), 'utf8')).replaceAll('\r\n', '\n').trim();
  if (license !== 'MIT' || author === undefined) throw new Error(`${name} ${version} contains no licence`);
  return `Copyright (c) ${typeof author === 'string' ? author : author.name}\n\n${MIT}`;
}
