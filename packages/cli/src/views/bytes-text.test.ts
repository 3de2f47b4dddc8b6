import { escapeControls } from '@taskmaster/proto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bytesOf, previewOf, textOf } from './bytes-text.ts';
import { UsageError } from './cli-errors.ts';

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 20 }).map((text) => new Uint8Array(Buffer.from(text))),
  fc.constantFrom('base64:', 'base64:AA==', 'hex:00', 'hex:').map((text) => new Uint8Array(Buffer.from(text))),
);

describe('payloads as text', () => {
  test('the text form of any bytes can be read back', () => {
    fc.assert(
      fc.property(bytes, (given) => {
        expect(new Uint8Array(bytesOf(textOf(given)))).toEqual(given);
      }),
    );
  });

  test.each([
    ['plain text', 'order 17', 'order 17'],
    ['other scripts', 'größe 日本 👍', 'größe 日本 👍'],
    ['a line break', 'a\nb', 'a\nb'],
    ['text that looks encoded', 'hex:00', 'base64:aGV4OjAw'],
  ])('%s', (_what, text, shown) => {
    expect(textOf(Buffer.from(text))).toBe(shown);
  });

  test('bytes that are not UTF-8 are base64', () => {
    expect(textOf(Buffer.of(0, 0xff))).toBe('base64:AP8=');
  });

  test('is read with a marker, or as plain text', () => {
    expect(bytesOf('base64:AP8=')).toEqual(Buffer.of(0, 0xff));
    expect(bytesOf('hex:00Ff')).toEqual(Buffer.of(0, 0xff));
  });

  test.each(['base64:A', 'base64:AP8', 'base64:a b=', 'hex:0', 'hex:zz'])('%s is refused', (text) => {
    expect(() => bytesOf(text)).toThrow(UsageError);
  });
});

describe('a preview', () => {
  test.each([
    ['short text is whole', Buffer.from('hello'), 'hello'],
    ['control characters are escapes', Buffer.from('a\n\u001b'), String.raw`a\n\u{1b}`],
    ['long text is cut', Buffer.from('0123456789abc'), '012345678…'],
    ['a character is not cut in two', Buffer.from('ä'.repeat(1000)), `${'ä'.repeat(9)}…`],
    ['bytes are base64', Buffer.of(0xff, 0xfe), 'base64://…'],
    ['a marker would mislead', Buffer.from('hex:00'), 'base64:aG…'],
  ])('%s', (_what, data, shown) => {
    expect(previewOf(data, 10)).toBe(shown);
  });
});

test('characters that control a terminal are shown as escapes', () => {
  expect(escapeControls('a\r\u202e\u0007b')).toBe(String.raw`a\r\u{202e}\u{7}b`);
});
