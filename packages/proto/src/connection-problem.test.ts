import { expect, test } from 'vitest';
import { connectionProblem, isUnknownProblem } from './connection-problem.ts';

const ofGrpc = (reason: string, note = ''): string =>
  `No connection established. Last error: ${reason}. Resolution note: ${note}`;

test.each([
  [ofGrpc('Error: connect ECONNREFUSED 127.0.0.1:1'), 'connect ECONNREFUSED 127.0.0.1:1', false],
  [ofGrpc('Failed to connect (2030-01-01T00:00:00.000Z)'), 'Failed to connect (2030-01-01T00:00:00.000Z)', false],
  [ofGrpc('undefined'), 'there is no connection, and gRPC does not say why', true],
  [ofGrpc('null'), 'there is no connection, and gRPC does not say why', true],
  [ofGrpc(''), 'there is no connection, and gRPC does not say why', true],
  [ofGrpc('undefined', 'a note'), 'there is no connection, and gRPC does not say why', true],
  ['Name resolution failed for target dns:x:1', 'Name resolution failed for target dns:x:1', false],
  ['the queue is undefined', 'the queue is undefined', false],
  ['', '', false],
])('%j is %j', (details, problem, isUnknown) => {
  expect(connectionProblem(details)).toBe(problem);
  expect(isUnknownProblem(details)).toBe(isUnknown);
});
