import { aPeek } from '@taskmaster/server/testing';
import { expect, test } from 'vitest';
import { parsePeek } from './parse-tasks.ts';

test('a peek looks at the head by default', () => {
  expect(parsePeek(aPeek({ kind: 0 })).kind).toBe('head');
});
