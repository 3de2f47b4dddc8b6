import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { openReasons, statusOfReason } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';

const text = readFileSync(join(root, 'docs/reference/errors.md'), 'utf8');

test('docs/reference/errors.md has a line for every reason, and for no other', () => {
  const documented = text.matchAll(/^\| `([A-Z_]+)` \|/gm);
  expect([...documented].map(([, reason]) => reason).sort()).toEqual(Object.keys(statusOfReason).sort());
});

test('docs/reference/errors.md says which reasons leave it open whether the request was carried out', () => {
  const [, sentence] = /leave that open: ([^.]*?), unless/s.exec(text) ?? [];
  expect(sentence?.match(/[A-Z_]{4,}/g)).toEqual([...openReasons]);
});

test('docs/reference/errors.md says which status each reason travels under', () => {
  const told = text.split(/^## /m).flatMap((section) => {
    // In the title for all of a section, or in a column.
    const [, ofAll] = /^[^\n]*\(([A-Z_]+)\)/.exec(section) ?? [];
    return [...section.matchAll(/^\| `([A-Z_]+)` \| ([A-Z_]+)?/gm)].map(([, reason, own]) => [reason, own ?? ofAll]);
  });
  const inCode = Object.entries(statusOfReason).map(([reason, code]) => [reason, status[code]]);
  expect(told.toSorted()).toEqual(inCode.toSorted());
});
