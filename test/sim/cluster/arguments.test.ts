import { describe, expect, test } from 'vitest';
import { readArguments, UsageError } from './arguments.ts';

describe('the command line of the simulation', () => {
  test('selects the seeds and how to play them', () => {
    expect(readArguments([])).toMatchObject({ first: 1, seeds: 500, trace: false, json: false });
    const args = ['--seeds', '1000', '--first-seed', '7', '--steps', '9', '--json'];
    expect(readArguments(args)).toMatchObject({ first: 7, seeds: 1000, steps: 9, json: true });
    expect(readArguments(['--seed', '41', '--trace'])).toMatchObject({ first: 41, seeds: 1, trace: true });
    expect(readArguments(['--schedules'])).toMatchObject({ schedules: true, oldCopies: false });
    expect(readArguments(['--flows'])).toMatchObject({ flows: true, pauses: false });
    expect(readArguments(['--kinds'])).toMatchObject({ kinds: true, flows: false });
    expect(readArguments(['--pauses'])).toMatchObject({ pauses: true, schedules: false });
    expect(readArguments(['--fair', '--signals'])).toMatchObject({ fair: true, signals: true, limits: false });
    expect(readArguments(['--limits', '--starts'])).toMatchObject({ limits: true, starts: true, pauses: false });
    expect(readArguments(['--help'])).toEqual({ kind: 'help' });
  });

  test.each([
    ['--sedes', '3'],
    ['41'],
    ['--seeds', '0'],
    ['--seeds', '1.5'],
    ['--first-seed', '-1'],
    ['--seed', '1', '--seeds', '2'],
    ['--trace'],
  ])('is refused if it is wrong: %s %s', (...argv) => {
    expect(() => readArguments(argv)).toThrow(UsageError);
  });
});
