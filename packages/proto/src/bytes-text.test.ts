import { describe, expect, test } from 'vitest';
import { bytesFromText, pidText } from './bytes-text.ts';

describe('the text form of a PID', () => {
  test.each([
    ['plain text', 'order 17', 'order 17'],
    ['other scripts', 'größe 日本 👍', 'größe 日本 👍'],
    ['quotes and backslashes', `it's "\\0"`, `it's "\\0"`],
    ['a line break', 'a\nb', 'hex:610a62'],
    ['a zero byte', 'a\0', 'hex:6100'],
    ['a command to the terminal', '\u001b[2J', 'hex:1b5b324a'],
    ['a change of direction', '\u202ea', 'hex:e280ae61'],
    ['a space at the end', 'a ', 'hex:6120'],
    ['a space that is none', 'a\u00a0b', 'hex:61c2a062'],
    ['what looks like an option', '-n', 'hex:2d6e'],
    ['what looks encoded', 'hex:00', 'hex:6865783a3030'],
    ['what looks encoded otherwise', 'base64:', 'hex:6261736536343a'],
  ])('%s', (_what, text, shown) => {
    expect(pidText(Buffer.from(text))).toBe(shown);
    expect(bytesFromText(shown)).toEqual(Buffer.from(text));
  });

  test('bytes that are not UTF-8 are hexadecimal digits, which have the same order', () => {
    expect(pidText(Uint8Array.of(0, 1, 0xff))).toBe('hex:0001ff');
    expect(pidText(new Uint8Array([9, 0xff, 0xfe, 9]).subarray(1, 3))).toBe('hex:fffe');
  });
});

describe('text forms of bytes', () => {
  test.each([
    ['base64:AP8=', [0, 0xff]],
    ['hex:00Ff', [0, 0xff]],
    ['0x00', [0x30, 0x78, 0x30, 0x30]],
    ['', []],
  ])('%s', (text, bytes) => {
    expect([...bytesFromText(text)]).toEqual(bytes);
  });

  test.each(['base64:A', 'base64:AP8', 'base64:a b=', 'hex:0', 'hex:zz'])('%s is refused', (text) => {
    expect(() => bytesFromText(text)).toThrow(TypeError);
  });
});
