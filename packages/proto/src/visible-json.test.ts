import { expect, test } from 'vitest';
import { visibleJson } from './visible-json.ts';

test.each([
  ['a change of direction', '\u202e', '\\u202e'],
  ['a line separator', '\u2028', '\\u2028'],
  ['a control character above ASCII', '\u009b', '\\u009b'],
  ['a deletion', '\u007f', '\\u007f'],
  ['a character of two units', '\u{e0041}', '\\udb40\\udc41'],
  ['a character of no width', '\u200b', '\\u200b'],
])('%s is escaped, and stays the same text', (_name, character, escaped) => {
  const value = { name: `queue ${character} é \u{1f600}` };
  const json = visibleJson(JSON.stringify(value));
  expect(json).toBe(`{"name":"queue ${escaped} é \u{1f600}"}`);
  expect(JSON.parse(json)).toEqual(value);
});
