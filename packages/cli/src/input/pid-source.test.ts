import { describe, expect, test } from 'vitest';
import { UsageError } from '../views/cli-errors.ts';
import { type PidSource, pidOfLine } from './pid-source.ts';

function pidOf(text: string, source: PidSource): string | undefined {
  const pid = pidOfLine({ number: 7, bytes: Buffer.from(text), endsAt: 0 }, source);
  return pid === undefined ? undefined : Buffer.from(pid).toString();
}

const field = (path: string): PidSource => ({ kind: 'field', path });
const column = (at: number, separator = '\t'): PidSource => ({
  kind: 'column',
  column: at,
  separator: Buffer.from(separator),
});

describe('the PID of a line', () => {
  test('has the bytes of a column, whatever they are', () => {
    const bytes = Buffer.of(0xff, 0x00, 0x68, 0x09, 0x61);
    expect(pidOfLine({ number: 1, bytes, endsAt: 0 }, column(1))).toEqual(Buffer.of(0xff, 0x00, 0x68));
  });

  test('is not read from JSON that is not UTF-8, because two PIDs could become one', () => {
    const bytes = Buffer.from('{"id":"\u00e4"}', 'latin1');
    expect(() => pidOfLine({ number: 1, bytes, endsAt: 0 }, field('id'))).toThrow(UsageError);
  });

  test.each([
    ['none is given: the node assigns it', '{"id":1}', { kind: 'none' }, undefined],
    ['a field', '{"url":"https://a/ä"}', field('url'), 'https://a/ä'],
    ['a field of a field', '{"order":{"id":"x"}}', field('order.id'), 'x'],
    ['a number, as JSON writes it', '{"id":17}', field('id'), '17'],
    ['a negative number', '{"id":-1.5}', field('id'), '-1.5'],
    ['the first column', 'a\tb', column(1), 'a'],
    ['the last column', 'a\tb', column(2), 'b'],
    ['a separator of several bytes', 'a::b::c', column(2, '::'), 'b'],
    ['a field, as PIDs are shown', '{"pid":"hex:610a"}', field('pid'), 'a\n'],
    ['a column, as PIDs are shown', 'hex:610a\tb', column(1), 'a\n'],
  ] as const)('%s', (_what, line, source, pid) => {
    expect(pidOf(line, source)).toBe(pid);
  });

  test.each([
    ['text that is not JSON', 'oops', field('id'), 'line 7 is not JSON'],
    ['a field that is missing', '{}', field('id'), "'id' is missing"],
    ['what only the prototype has', '{}', field('constructor'), "'constructor' is missing"],
    ['a field of something else', '{"id":true}', field('id'), "'id' is true"],
    ['a field that is empty', '{"id":""}', field('id'), 'is empty'],
    // It would be read as 9007199254740992, the same as its neighbour.
    ['a number that is not read exactly', '{"id":9007199254740993}', field('id'), 'too large to be read exactly'],
    ['a field with a lone surrogate', '{"id":"a\\ud800"}', field('id'), 'lone surrogate'],
    ['a column that only begins like bytes', 'hex:order', column(1), "line 7: its PID 'hex:order' does not go on"],
    ['a column that is missing', 'a\tb', column(3), 'line 7 has 2 columns, not 3'],
    ['a PID that is too long', 'a'.repeat(4_097), column(1), 'has 4097 bytes'],
  ] as const)('is refused for %s', (_what, line, source, why) => {
    const read = (): unknown => pidOf(line, source);
    expect(read).toThrow(UsageError);
    expect(read).toThrow(why);
  });
});
