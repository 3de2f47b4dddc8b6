import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { limits, openReasons, type Reason, statusOfReason } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { makeError } from '../../../packages/client/src/values/errors.ts';
import { root } from '../../support/paths.ts';
import { documentAt, withGenerated } from './documents.ts';

/** A field of an object literal with its comment, or a heading between fields. */
type Entry = { readonly heading: string } | { readonly name: string; readonly comment: string };

const ENTRY = /^ {2}\/\/ (?<heading>[^\n]*)$|^ {2}\/\*\*(?<comment>(?:(?!\*\/).)*)\*\/\n {2}(?<name>\w+): /gms;

/** The commented fields of a source file, in their order. */
function entriesOf(path: string): Entry[] {
  const source = readFileSync(join(root, path), 'utf8');
  return [...source.matchAll(ENTRY)].map(({ groups: { heading, comment = '', name = '' } = {} }) =>
    heading === undefined ? { name, comment: comment.replace(/\s+(?:\* )?/g, ' ').trim() } : { heading },
  );
}

const linked = (text: string): string => text.replace(/\bdocs\/([\w/-]+)\.md/g, '[$1](../$1.md)');

function reasonRow(name: string, comment: string): string {
  const [meaning = '', remedy] = comment.split(' Do: ');
  if (remedy === undefined) throw new Error(`${name} does not say what the caller does next`);
  const reason = name as Reason;
  const { name: ofClient } = makeError('', { reason }).constructor;
  return `| \`${name}\` | ${status[statusOfReason[reason]]} | \`${ofClient}\` | ${linked(meaning)} | ${linked(remedy)} |`;
}

const REASON_TITLES =
  '| reason | status | class in the client | meaning | what to do |\n| --- | --- | --- | --- | --- |';

test('docs/reference/errors.md has every reason (vitest -u writes it)', async () => {
  const path = 'docs/reference/errors.md';
  const entries = entriesOf('packages/proto/src/reasons.ts');
  const names = entries.flatMap((entry) => ('name' in entry ? [entry.name] : []));
  expect(names).toEqual(Object.keys(statusOfReason));
  const lines = entries.map((entry, at) => {
    if ('name' in entry) return reasonRow(entry.name, entry.comment);
    return `${at === 0 ? '' : '\n'}## ${entry.heading}\n\n${REASON_TITLES}`;
  });
  await expect(withGenerated(path, lines.join('\n'))).toMatchFileSnapshot(join(root, path));
});

test('docs/reference/errors.md says which reasons leave the outcome open', () => {
  const [, listed = ''] = /leave the outcome open:(.*?)\n\n/s.exec(documentAt('docs/reference/errors.md').text) ?? [];
  expect(listed.match(/[A-Z_]{4,}/g)).toEqual([...openReasons]);
});

const DAY_MS = 24 * 3600 * 1000;
const UNITS: readonly (readonly [size: number, unit: string])[] = [
  [365 * DAY_MS, 'years'],
  [60_000, 'min'],
  [1_000, 's'],
];

function shownLimit(name: string, value: number): string {
  if (name.endsWith('Bytes')) return value >= 2 ** 20 ? `${value / 2 ** 20} MiB` : `${value} bytes`;
  if (!name.endsWith('Ms')) return value.toLocaleString('en-US');
  const [size = 1, unit = 'ms'] = UNITS.find(([length]) => value >= length) ?? [];
  return value === size ? `1 ${unit.replace(/(?<=.)s$/, '')}` : `${value / size} ${unit}`;
}

test('docs/reference/limits.md has every limit (vitest -u writes it)', async () => {
  const path = 'docs/reference/limits.md';
  const known = new Map(Object.entries<number>(limits));
  const entries = entriesOf('packages/proto/src/limits.ts').flatMap((entry) => ('name' in entry ? [entry] : []));
  expect(entries.map(({ name }) => name)).toEqual([...known.keys()]);
  const rows = entries.map(({ name, comment }) => {
    return `| ${comment.replace(/\.$/, '')} | ${shownLimit(name, known.get(name) ?? Number.NaN)} |`;
  });
  const table = ['| of | limit |', '| --- | --- |', ...rows].join('\n');
  await expect(withGenerated(path, table)).toMatchFileSnapshot(join(root, path));
});
