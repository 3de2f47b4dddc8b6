import type { Dirent } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join, relative, sep } from 'node:path';
import { declarationHtml, indexHtml, type PackagePages, packageHtml } from './render.ts';

/** One page of the site. */
interface CorpusPage {
  readonly contentType: 'text/html' | 'text/markdown';
  read(): Promise<string>;
}

/** The pages of the site, by URL path. The start page is `/`. */
export type Corpus = ReadonlyMap<string, CorpusPage>;

interface InstalledPackage {
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  readonly manifest: Manifest;
}

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  readonly description?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly os?: unknown;
  readonly cpu?: unknown;
}

/** Maximum size of a file, in bytes. Larger files are change logs and bundles, which would dominate the crawl. */
const MAX_FILE_BYTES = 150_000;
/** Maximum number of type declarations of one package, so that no package fills the site. */
const MAX_DECLARATIONS = 24;
/** A declaration file counts as documentation if it has a doc comment of some length. */
const DOC_COMMENT = /\/\*\*[\s\S]{80,}?\*\//;

/**
 * A site made of the documentation that is installed beside this workspace: a start page, a page for each package with links
 * to its dependencies and documents, the Markdown and HTML files of the packages with their own relative links, and type
 * declarations with comments. The same lockfile gives the same site on every machine, because packages for one platform only
 * are left out.
 *
 * @param maxPages packages are added in the order of their names while the site has fewer pages.
 */
export async function readCorpus(maxPages: number): Promise<Corpus> {
  const pages = new Map<string, CorpusPage>();
  const shown: PackagePages[] = [];
  for (const { name, version, dir, manifest } of await installedPackages(packageStore())) {
    if (pages.size + shown.length + 1 >= maxPages) break;
    const path = `/${name}@${version}/`;
    const documents = await documentsOf(dir);
    for (const document of documents) {
      pages.set(path + document, documentPage(join(dir, document), path + document, pages));
    }
    const dependencies = Object.keys(manifest.dependencies ?? {}).sort();
    shown.push({ name, version, path, description: manifest.description ?? '', dependencies, documents });
  }
  const pathOf = new Map(shown.map(({ name, path }) => [name, path]));
  for (const one of shown) pages.set(one.path, generatedPage(packageHtml(one, pathOf)));
  pages.set('/', generatedPage(indexHtml(shown)));
  return pages;
}

function generatedPage(html: string): CorpusPage {
  return { contentType: 'text/html', read: async () => html };
}

function documentPage(file: string, path: string, pages: Corpus): CorpusPage {
  if (file.endsWith('.md')) return { contentType: 'text/markdown', read: () => readFile(file, 'utf8') };
  if (file.endsWith('.html')) return { contentType: 'text/html', read: () => readFile(file, 'utf8') };
  return {
    contentType: 'text/html',
    read: async () => declarationHtml(path, await readFile(file, 'utf8'), (linked) => pages.has(linked)),
  };
}

/** The pnpm store of this workspace. Each installed package is a real folder in it once. */
function packageStore(): string {
  const resolved = createRequire(import.meta.url).resolve('marked');
  const marker = join('node_modules', '.pnpm') + sep;
  const at = resolved.indexOf(marker);
  if (at < 0) throw new Error(`the site is made of packages that pnpm installed, but ${resolved} is not in its store`);
  return resolved.slice(0, at + marker.length - 1);
}

/** The latest version of each package, by name. */
async function installedPackages(store: string): Promise<InstalledPackage[]> {
  const byName = new Map<string, InstalledPackage>();
  for (const entry of await directories(store)) {
    const modules = join(store, entry, 'node_modules');
    for (const name of await packageNames(modules)) {
      const dir = join(modules, name);
      const manifest = await readManifest(dir);
      if (manifest?.version === undefined || manifest.os !== undefined || manifest.cpu !== undefined) continue;
      const known = byName.get(name);
      if (known === undefined || isNewer(manifest.version, known.version)) {
        byName.set(name, { name, version: manifest.version, dir, manifest });
      }
    }
  }
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function packageNames(modules: string): Promise<string[]> {
  const names: string[] = [];
  for (const name of await directories(modules)) {
    if (name.startsWith('@'))
      names.push(...(await directories(join(modules, name))).map((inner) => `${name}/${inner}`));
    else names.push(name);
  }
  return names;
}

/** Real folders only. pnpm represents dependencies as symbolic links. */
async function directories(dir: string): Promise<string[]> {
  const entries = await entriesOf(dir);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

async function readManifest(dir: string): Promise<Manifest | undefined> {
  try {
    return JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')) as Manifest;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function documentsOf(dir: string): Promise<string[]> {
  const documents: string[] = [];
  let declarations = 0;
  for (const file of await filesBelow(dir)) {
    if ((await stat(file)).size > MAX_FILE_BYTES) continue;
    if (file.endsWith('.d.ts')) {
      if (declarations === MAX_DECLARATIONS || !DOC_COMMENT.test(await readFile(file, 'utf8'))) continue;
      declarations++;
    } else if (!file.endsWith('.md') && !file.endsWith('.html')) {
      continue;
    }
    documents.push(relative(dir, file).split(sep).join('/'));
  }
  return documents;
}

async function filesBelow(dir: string): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await entriesOf(dir)) {
    const path = join(dir, entry.name);
    if (entry.isFile()) files.push(path);
    else if (entry.isDirectory() && basename(path) !== 'node_modules') files.push(...(await filesBelow(path)));
  }
  return files;
}

/** Sorted by name. Empty if the folder does not exist. */
async function entriesOf(dir: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}

function isNewer(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) > 0;
}
