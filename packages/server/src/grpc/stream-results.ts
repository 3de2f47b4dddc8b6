import {
  encodeStreamEntries,
  encodeToBuffer,
  LeaseTasksResponse,
  ResultField,
  type StreamEntry,
  StreamResponse,
  type StreamResult,
  UpdateTasksResponse,
  Error as WireError,
} from '@taskmaster/proto';
import type { StreamReply } from '../service/raw-service.ts';

/** The answer to one call. */
export interface StreamAnswer {
  readonly id: number;
  readonly reply: StreamReply;
}

/** Answers are joined into messages of about this size; one that is larger by itself travels alone. */
const MESSAGE_BYTES = 1024 * 1024;

/** A StreamResponse. */
export function encodeAnswers(answers: readonly StreamAnswer[]): Buffer {
  // Written in one go without a copy of each answer, unless some come from other nodes and are bytes already.
  const results: StreamResult[] = [];
  for (const { id, reply } of answers) {
    if (reply.$case === 'encoded') return encodeStreamEntries(answers.map(entryOf));
    results.push({ id, result: reply });
  }
  return encodeToBuffer(StreamResponse, { results });
}

function entryOf({ id, reply }: StreamAnswer): StreamEntry {
  switch (reply.$case) {
    case 'encoded':
      return { id, field: reply.field, bytes: reply.bytes };
    case 'update':
      return { id, field: ResultField.update, bytes: encodeToBuffer(UpdateTasksResponse, reply.value) };
    case 'lease':
      return { id, field: ResultField.lease, bytes: encodeToBuffer(LeaseTasksResponse, reply.value) };
    case 'error':
      return { id, field: ResultField.error, bytes: encodeToBuffer(WireError, reply.value) };
    default:
      return reply satisfies never;
  }
}

/** Splits answers into messages. */
export function toMessages(answers: readonly StreamAnswer[]): StreamAnswer[][] {
  const messages: StreamAnswer[][] = [];
  let message: StreamAnswer[] = [];
  let bytes = 0;
  for (const answer of answers) {
    const more = 24 + aboutBytes(answer.reply);
    if (message.length > 0 && bytes + more > MESSAGE_BYTES) {
      messages.push(message);
      message = [];
      bytes = 0;
    }
    message.push(answer);
    bytes += more;
  }
  if (message.length > 0) messages.push(message);
  return messages;
}

/** About how long an answer is on the wire, without its id. */
function aboutBytes(reply: StreamReply): number {
  let bytes = 0;
  switch (reply.$case) {
    case 'encoded':
      return reply.bytes.length;
    case 'update':
      for (const { pid } of reply.value.enqueued) bytes += pid.length + 10;
      for (const { deadLetterQueue } of reply.value.released) bytes += deadLetterQueue.length + 12;
      return bytes + reply.value.renewed.length * 12;
    case 'lease':
      for (const { queue, pid, data } of reply.value.tasks) bytes += queue.length + pid.length + data.length + 48;
      return bytes;
    case 'error':
      for (const item of reply.value.items) bytes += item.queue.length + item.pid.length + 24;
      return bytes + reply.value.message.length + 256;
  }
}
