import { expect, test } from 'vitest';
import { assertRuntime } from './runtime.ts';

test('an old Node is named, and what is needed', () => {
  expect(() => assertRuntime()).not.toThrow();
  expect(() => assertRuntime({})).toThrow(/needs Node 22\.12 or newer; this is v\d/);
});
