import fc from 'fast-check';
import { expect, test } from 'vitest';
import { taskStates } from '../testing/arbitraries.ts';
import { ByteReader, ByteWriter, UnreadableBytesError } from './bytes.ts';
import type { TaskState } from './task.ts';
import { readTaskState, writeTaskState } from './task-codec.ts';

function encode(state: TaskState): Uint8Array {
  const writer = new ByteWriter();
  writeTaskState(writer, state, state.history);
  return writer.view();
}

test('a task state is read as it was written, with the same length', () => {
  fc.assert(
    fc.property(taskStates, taskStates, (first, second) => {
      const reader = new ByteReader(Buffer.concat([encode(first), encode(second)]));
      expect(readTaskState(reader)).toEqual(first);
      expect(readTaskState(reader)).toEqual(second);
      expect(() => reader.byte()).toThrow(UnreadableBytesError);
    }),
  );
});

test('a task state truncated anywhere is refused', () => {
  fc.assert(
    fc.property(taskStates, fc.nat(), (state, at) => {
      const bytes = encode(state);
      const cut = new ByteReader(bytes.subarray(0, at % bytes.length));
      expect(() => readTaskState(cut)).toThrow(UnreadableBytesError);
    }),
  );
});
