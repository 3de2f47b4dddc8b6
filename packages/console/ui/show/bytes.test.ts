import { expect, test } from 'vitest';
import { beginningOf, bytesOfHex, bytesOfPid, hexDump, pidText, prettyJson, utf8Text } from './bytes.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test.each([
  ['mail-7', bytes('mail-7')],
  ['with a space', bytes('with a space')],
  ['hex:ff00', Uint8Array.of(0xff, 0)],
  ['hex:6865783a', bytes('hex:')],
  ['hex:2d61', bytes('-a')],
  ['hex:2061', bytes(' a')],
  ['hex:61e280ae', bytes('a\u202e')],
])('%s stands for a PID', (text, pid) => {
  expect(pidText(pid)).toBe(text);
  expect(bytesOfPid(text)).toEqual(pid);
});

test('hex that is none is refused', () => {
  expect([bytesOfHex('0g'), bytesOfHex('123'), bytesOfPid('hex:1')]).toEqual([undefined, undefined, undefined]);
  expect(bytesOfHex('ff 00\n01')).toEqual(Uint8Array.of(255, 0, 1));
});

test('a dump has offsets, bytes and what of them is ASCII', () => {
  expect(hexDump(Uint8Array.from({ length: 17 }, (_, at) => 0x40 + at)).split('\n')).toEqual([
    '000000  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO',
    `000010  50${' '.repeat(21)}  ${' '.repeat(23)}  P`,
  ]);
});

test('text and JSON are recognised', () => {
  expect([utf8Text(bytes('é')), utf8Text(Uint8Array.of(0xc3))]).toEqual(['é', undefined]);
  expect([prettyJson('{"a":1}'), prettyJson('{')]).toEqual(['{\n  "a": 1\n}', undefined]);
});

test.each(['{"a":[1,{"b":[]},{}],"c":"d","e":null}', ' [ ] ', '"a\\"[,:]\\\\"', '[[],[[{}]],true,-1.5]'])(
  '%s is indented like by JSON.stringify',
  (json) => {
    const shown = prettyJson(json);
    expect(shown).toBe(JSON.stringify(JSON.parse(json), undefined, 2));
  },
);

test('values are shown as they are written: they may be those of a task that is edited', () => {
  const json = '{"id":12345678901234567890,"x":1.0,"y":1e999,"__proto__":1,"2":0,"1":"\\u00e9","1":0}';
  expect(prettyJson(json)?.replaceAll(/\s/g, '')).toBe(json);
});

test('deep JSON does not become much longer', () => {
  const deep = `${'['.repeat(5_000)}${'0,'.repeat(40_000)}0${']'.repeat(5_000)}`;
  expect(prettyJson(deep)?.length).toBeLessThan(4_100_000);
  const deepest = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  expect(prettyJson(deepest)).toBe(deepest);
});

test('a text is cut where it would have too many lines or marks', () => {
  expect(beginningOf('abc', 2, 9)).toBe('ab');
  expect(beginningOf('a\nb\nc\nd', 99, 2)).toBe('a\nb\nc');
  expect(beginningOf('a\u200bb\u200b\u200bc\u200bd', 99, 2)).toBe('a\u200bb\u200b\u200bc');
});
