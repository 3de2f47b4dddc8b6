import { expect, test } from 'vitest';
import { pageUrl, parsePage } from './page.ts';

const here = 'http://site.example/docs/page.html';

test.each([
  ['a relative link', 'other.html', 'http://site.example/docs/other.html'],
  ['a link with a fragment leads to the page', '/a#part', 'http://site.example/a'],
  ['another scheme of the same host', 'https://site.example/', 'https://site.example/'],
  ['another host', 'http://elsewhere.example/', undefined],
  ['a link that leads to no page', 'mailto:ann@site.example', undefined],
  ['an invalid link', 'http://', undefined],
  ['a link that is too long', `/${'x'.repeat(3_000)}`, undefined],
])('%s', (_what, href, expected) => {
  expect(pageUrl(href, here)).toBe(expected);
});

test('HTML: title, text without scripts, and each link once', () => {
  const body = `<title>A &amp; B</title><script>no()</script><p>Some text</p>
    <a href="x">x</a> <a href="x#again">again</a> <pre>code <a href="y">y</a></pre>`;
  const page = parsePage({ url: here, contentType: 'text/html', body });

  expect(page.title).toBe('A & B');
  expect(page.text).toContain('Some text');
  expect(page.text).not.toContain('no()');
  expect(page.links).toEqual(['http://site.example/docs/x', 'http://site.example/docs/y']);
});

test('Markdown: its first heading is its title', () => {
  const body = '# Streams\n\nSee [pipes](pipes.md), or ![an image](image.png).';
  const page = parsePage({ url: here, contentType: 'text/markdown', body });

  expect(page.title).toBe('Streams');
  expect(page.links).toEqual(['http://site.example/docs/pipes.md']);
});
