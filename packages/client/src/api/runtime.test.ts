import { expect, test } from 'vitest';
import { assertRuntime } from './runtime.ts';

test('the error for an old Node has its version and the required one', () => {
  expect(() => assertRuntime()).not.toThrow();
  expect(() => assertRuntime({})).toThrow(/needs Node 22\.12 or newer; this is v\d/);
});
