import { posix } from 'node:path';

/** Pages of one installed package. */
export interface PackagePages {
  readonly name: string;
  readonly version: string;
  /** URL path of the page of the package, with a slash at the end. */
  readonly path: string;
  readonly description: string;
  readonly dependencies: readonly string[];
  /** Paths of its documents below `path`, with `/` between folders. */
  readonly documents: readonly string[];
}

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => escapes[character] ?? character);
}

function page(title: string, body: string): string {
  return `<!doctype html>\n<html lang="en">\n<title>${escapeHtml(title)}</title>\n<h1>${escapeHtml(title)}</h1>\n${body}\n</html>\n`;
}

function link(href: string, text: string): string {
  return `<a href="${escapeHtml(encodeURI(href))}">${escapeHtml(text)}</a>`;
}

function list(items: readonly string[]): string {
  return `<ul>\n${items.map((item) => `<li>${item}</li>`).join('\n')}\n</ul>`;
}

/** The site always answers 500 here. */
export const BROKEN_PAGE = '/-/statistics';

/** The start page, from which every page can be reached. */
export function indexHtml(packages: readonly PackagePages[]): string {
  const rows = packages.map(({ path, name, description }) => `${link(path, name)}: ${escapeHtml(description)}`);
  const statistics = `<p>${link(BROKEN_PAGE, 'Statistics of this site')}</p>`;
  return page('Documentation of the installed packages', list(rows) + statistics);
}

/** The page of a package. @param pathOf paths of the packages that have a page. */
export function packageHtml(one: PackagePages, pathOf: ReadonlyMap<string, string>): string {
  const dependencies = one.dependencies.flatMap((name) => {
    const path = pathOf.get(name);
    return path === undefined ? [] : [link(path, name)];
  });
  const parts = [`<p>${escapeHtml(one.description)}</p>`];
  if (dependencies.length > 0) parts.push('<h2>Depends on</h2>', list(dependencies));
  if (one.documents.length > 0) {
    parts.push('<h2>Documents</h2>', list(one.documents.map((document) => link(`./${document}`, document))));
  }
  parts.push(`<p>${link('/', 'All packages')}</p>`);
  return page(`${one.name} ${one.version}`, parts.join('\n'));
}

/** `import … from './x.js'`, `import('./x.js')`, `/// <reference path="x.d.ts" />`. */
const RELATIVE_IMPORT = /(?<=(?:from\s+|import\(|path=)['"])[^'"]+(?=['"])/g;

/** A type declaration in which imports are links. @param hasPage whether the site has a page at a path. */
export function declarationHtml(path: string, source: string, hasPage: (path: string) => boolean): string {
  let code = '';
  let from = 0;
  for (const match of source.matchAll(RELATIVE_IMPORT)) {
    const target = declarationPath(path, match[0], hasPage);
    if (target === undefined) continue;
    code += escapeHtml(source.slice(from, match.index)) + link(target, match[0]);
    from = match.index + match[0].length;
  }
  code += escapeHtml(source.slice(from));
  return page(path.slice(1), `<pre>${code}</pre>`);
}

function declarationPath(from: string, specifier: string, hasPage: (path: string) => boolean): string | undefined {
  const base = posix.join(posix.dirname(from), specifier.replace(/\.js$/, ''));
  return [base, `${base}.d.ts`, `${base}/index.d.ts`].find(hasPage);
}
