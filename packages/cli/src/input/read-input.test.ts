import { PassThrough, Readable } from 'node:stream';
import { ManualTiming } from '@taskmaster/client/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../views/cli-errors.ts';
import { type Input, type Line, PAUSE, readLines, readLinesAndPauses, readWhole } from './read-input.ts';

function inputOf(...chunks: readonly (string | Uint8Array)[]): Input {
  const stream = Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
  return { stream, name: 'input', totalBytes: undefined };
}

async function linesOf(input: Input, delimiter = '\n', maxBytes = 1_000): Promise<Line[]> {
  return Array.fromAsync(readLines(input, { delimiter: Buffer.from(delimiter), maxBytes }));
}

const texts = (lines: readonly Line[]): string[] => lines.map(({ bytes }) => bytes.toString('latin1'));

describe('lines', () => {
  test('have numbers, and positions of their ends in the input', async () => {
    const lines = await linesOf(inputOf('ab\n\ncd\n'));
    expect(lines.map(({ number, bytes, endsAt }) => [number, bytes.toString(), endsAt])).toEqual([
      [1, 'ab', 3],
      [2, '', 4],
      [3, 'cd', 7],
    ]);
  });

  test('have a mark where the input pauses, one for each pause', async () => {
    const timing = new ManualTiming();
    const stream = new PassThrough();
    const input: Input = { stream, name: 'input', totalBytes: undefined };
    const lines = readLinesAndPauses(input, { maxBytes: 100 }, timing);
    const next = async (): Promise<string> => {
      const { value, done } = await lines.next();
      return done ? 'end' : value === PAUSE ? 'pause' : value.bytes.toString();
    };
    stream.write('a\nb\nc');
    expect([await next(), await next()]).toEqual(['a', 'b']);
    const afterB = next();
    await timing.advance(1_000);
    expect(await afterB).toBe('pause');
    const afterPause = next();
    await timing.advance(60_000);
    stream.write('d\n');
    expect(await afterPause).toBe('cd');
    stream.end('e');
    expect([await next(), await next()]).toEqual(['e', 'end']);
    expect(timing.timers).toBe(0);
  });

  test('are the same however the input is cut into chunks', async () => {
    const chunks = fc.array(fc.string({ unit: fc.constantFrom('a', '\r', '\n'), maxLength: 6 }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(chunks, fc.constantFrom('\n', '\r\n', '\r\r\n'), async (parts, delimiter) => {
        const whole = parts.join('').split(delimiter);
        if (whole.at(-1) === '') whole.pop();
        expect(texts(await linesOf(inputOf(...parts), delimiter))).toEqual(whole);
      }),
    );
  });

  test('keep every byte that is not the delimiter', async () => {
    expect(texts(await linesOf(inputOf(Buffer.of(0xff, 0x00, 0x0d, 0x0a, 0xfe))))).toEqual(['\xff\0\r', '\xfe']);
  });

  test('of the maximum length are accepted, longer ones are refused with their number', async () => {
    expect(await linesOf(inputOf('x\n', 'y'.repeat(10), '\n'), '\n', 10)).toHaveLength(2);
    await expect(linesOf(inputOf('x\n', 'y'.repeat(11), '\n'), '\n', 10)).rejects.toThrow('line 2 has more than 10');
  });

  test('without an end are refused before they fill the memory', async () => {
    let given = 0;
    const endless = Readable.from(
      (function* () {
        for (; given < 1_000; given++) yield Buffer.alloc(100, 'y');
      })(),
    );
    const input = { stream: endless, name: 'input', totalBytes: undefined };
    await expect(linesOf(input, '\n', 1_000)).rejects.toThrow(UsageError);
    expect(given).toBeLessThan(100);
  });
});

describe('a whole input', () => {
  test('is every byte of it', async () => {
    expect(await readWhole(inputOf('a\n', 'b\n'), 4)).toEqual(Buffer.from('a\nb\n'));
  });

  test('that is too long is refused, whether its length is known or not', async () => {
    await expect(readWhole(inputOf('abc', 'de'), 4)).rejects.toThrow(UsageError);
    await expect(readWhole({ ...inputOf(), totalBytes: 5 }, 4)).rejects.toThrow('more than 4 bytes');
  });
});
