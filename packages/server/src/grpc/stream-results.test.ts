import { EnqueueResult, encodeToBuffer, ResultField, StreamResponse, UpdateTasksResponse } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { encodeAnswers, type StreamAnswer } from './stream-results.ts';

const updated = {
  enqueued: [
    { pid: Buffer.from('a'), result: EnqueueResult.ENQUEUE_RESULT_CREATED, leased: false, published: undefined },
  ],
  renewed: [],
  released: [],
  refused: [],
};
const answers: readonly StreamAnswer[] = [
  { id: 1, reply: { $case: 'update', value: updated } },
  { id: 300, reply: { $case: 'lease', value: { tasks: [], moreQueues: [] } } },
];
const results = answers.map(({ id, reply }) => ({ id, result: reply }));

describe('the answers of a turn', () => {
  test('are one StreamResponse', () => {
    expect(StreamResponse.decode(encodeAnswers(answers))).toEqual({ results });
  });

  test('are one StreamResponse, too, if other nodes have encoded some of them', () => {
    const bytes = encodeToBuffer(UpdateTasksResponse, updated);
    const passedOn: StreamAnswer = { id: 2, reply: { $case: 'encoded', field: ResultField.update, bytes } };
    expect(StreamResponse.decode(encodeAnswers([...answers, passedOn]))).toEqual({
      results: [...results, { id: 2, result: { $case: 'update', value: updated } }],
    });
  });
});
