import { TaskFailure, TaskInfo } from '@taskmaster/proto/messages';
import { expect, test } from 'vitest';
import { groupByError } from './error-groups.ts';

const NOTHING = new Uint8Array(0);
let at = 0;

/** A task whose last attempt failed with this error. Undefined: its lease expired. */
function dead(message: string | undefined, workerLabel = 'w'): TaskInfo {
  const error = message === undefined ? undefined : { message, details: '' };
  const failure = { ...TaskFailure.decode(NOTHING), failedUnixMs: ++at, workerLabel, error };
  return {
    ...TaskInfo.decode(NOTHING),
    failures: [{ ...failure, error: { message: 'earlier', details: '' } }, failure],
  };
}

test('messages that differ in numbers, ids and quoted texts are one group', () => {
  const groups = groupByError([
    dead('Error: connect ECONNREFUSED 10.0.0.1:443'),
    dead('Error: connect ECONNREFUSED 10.0.7.12:8443'),
    dead('Error: no user "ada"'),
    dead('Error: no user "bob"'),
    dead('Error: no user "eve"', 'v'),
    dead('Error: task 123e4567-e89b-12d3-a456-426614174000 is gone'),
  ]);
  expect(groups.map(({ title, tasks, common }) => [title, tasks.length, common])).toEqual([
    ['Error: no user …', 3, 'Error: no user'],
    ['Error: connect ECONNREFUSED …', 2, 'Error: connect ECONNREFUSED'],
    ['Error: task … is gone', 1, 'Error: task 123e4567-e89b-12d3-a456-426614174000 is gone'],
  ]);
  expect(groups[0]?.workers).toEqual(['w', 'v']);
});

test('the common text is in each message', () => {
  const messages = ['timeout after 5 s at step 17 of all imports', 'timeout after 12 s at step 3 of all imports'];
  const [group] = groupByError(messages.map((message) => dead(message)));
  expect(group?.common).toBe('of all imports');
  for (const message of messages) expect(message).toContain(group?.common);
});

test('expired leases are a group without a common text', () => {
  expect(groupByError([dead(undefined), dead(undefined)])).toMatchObject([{ title: 'The lease expired', common: '' }]);
});

test('the common text fits into a filter', () => {
  const [group] = groupByError([dead('ü'.repeat(300))]);
  expect(new TextEncoder().encode(group?.common).length).toBe(256);
  const [pairs] = groupByError([dead(`a${'😀'.repeat(100)}`)]);
  expect(pairs?.common.isWellFormed()).toBe(true);
});

test('the times are those of the last attempts', () => {
  const tasks = [dead('one'), dead('one')];
  const [group] = groupByError(tasks);
  expect([group?.firstMs, group?.lastMs]).toEqual([at - 1, at]);
});

test('nothing is no group', () => {
  expect(groupByError([])).toEqual([]);
});
