import { expect, test } from 'vitest';
import { DATA_FORMAT, type DataFormat, dataFormats, oldestReaderOf } from './data-formats.ts';

test('formats are numbered from 1, without gaps, and this release writes the last one', () => {
  expect(dataFormats.map(({ format }) => format)).toEqual(dataFormats.map((_, index) => index + 1));
  expect(DATA_FORMAT).toBe(dataFormats.length);
});

const formats = (...downgrades: boolean[]): readonly [DataFormat, ...DataFormat[]] => {
  const [first = true, ...rest] = downgrades;
  const made = (downgrade: boolean, index: number) => ({ format: index + 1, release: '', changed: '', downgrade });
  return [made(first, 0), ...rest.map((downgrade, index) => made(downgrade, index + 1))];
};

test.each([
  ['the only format', [false], 1],
  ['a format that the releases before cannot use', [false, false], 2],
  ['a format that the releases before can use', [false, true], 1],
  ['several such formats', [false, true, true], 1],
  ['such a format behind another one', [false, true, false, true], 3],
])('the oldest reader of %s', (_case, downgrades, expected) => {
  expect(oldestReaderOf(formats(...downgrades)).format).toBe(expected);
});
