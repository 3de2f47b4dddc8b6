import { expect, test } from 'vitest';
import { addGiven, givenMessage, givenNames } from './given-fields.ts';

test('every option that a task is given is in its message', () => {
  const options = { timeLimit: 1, startWithin: 2, limitKey: 'limited', kind: 'pdf' };
  expect(Object.keys(options).toSorted()).toEqual(Object.keys(givenNames).toSorted());
  expect(addGiven({ queue: 'q' }, options)).toEqual({ queue: 'q', ...givenMessage(options) });
});
