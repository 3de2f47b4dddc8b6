import { keptLog } from '@taskmaster/engine/testing';
import { expect, test } from 'vitest';
import { anEnqueue, anUpdate, bytes } from '../grpc/testing/requests.ts';
import { callFields, updateFields } from './call-fields.ts';
import { refusalOf } from './wire-errors.ts';

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const SPAN = { trace_id: '0af7651916cd43dd8448eb211c80319c', span_id: 'b7ad6b7169203331' };

test('a line about a bug names the call, its trace, its request id and its first task', () => {
  const log = keptLog();
  const requestId = Buffer.from([0, 255]);
  const enqueue = [anEnqueue({ queue: 'shop#mail', pid: bytes('p') })];
  const update = anUpdate({ traceparent: TRACEPARENT, requestId, enqueue });
  const bug = new RangeError('a bug');
  refusalOf(bug, log, () => updateFields('UpdateTasks', update));
  expect(log.lines.map(({ details }) => details)).toEqual([
    { err: bug, call: 'UpdateTasks', ...SPAN, request_id: '00ff', queue: 'shop#mail', pid: 'p' },
  ]);
});

test.each([
  undefined,
  '',
  'x',
  TRACEPARENT.toUpperCase(),
  `${TRACEPARENT}\n`,
  `${TRACEPARENT}-more`,
  '00-00000000000000000000000000000000-b7ad6b7169203331-01',
  '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01',
])('the text %j names no trace', (text) => {
  expect(callFields('PeekTasks', text)).toEqual({ call: 'PeekTasks' });
});
