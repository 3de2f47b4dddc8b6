import {
  encodeStreamEntries,
  encodeToBuffer,
  LeaseTasksResponse,
  ReadEventsResponse,
  ResultField,
  type StreamEntry,
  StreamResponse,
  type StreamResult,
  UpdateTasksResponse,
  WaitForTasksResponse,
  Error as WireError,
} from '@taskmaster/proto';
import type { StreamReply } from '../calls/raw-service.ts';

/** The answer to one call of a stream. */
export interface StreamAnswer {
  readonly id: number;
  readonly reply: StreamReply;
}

/** Size limit for joining answers into one message, in bytes. A larger answer is sent alone. */
const MESSAGE_BYTES = 1024 * 1024;

/** Encodes answers as a StreamResponse. */
export function encodeAnswers(answers: readonly StreamAnswer[]): Buffer {
  // Encoded at once, without a copy of each answer, unless some answers come encoded from other nodes.
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
    case 'wait':
      return { id, field: ResultField.wait, bytes: encodeToBuffer(WaitForTasksResponse, reply.value) };
    case 'events':
      return { id, field: ResultField.events, bytes: encodeToBuffer(ReadEventsResponse, reply.value) };
    case 'error':
      return { id, field: ResultField.error, bytes: encodeToBuffer(WireError, reply.value) };
    default:
      return reply satisfies never;
  }
}

/** Divides answers into messages. */
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

/** The approximate encoded size of an answer without its id, in bytes. */
function aboutBytes(reply: StreamReply): number {
  let bytes = 0;
  switch (reply.$case) {
    case 'encoded':
      return reply.bytes.length;
    case 'update':
      for (const { pid } of reply.value.enqueued) bytes += pid.length + 10;
      for (const { deadLetterQueue } of reply.value.released) bytes += deadLetterQueue.length + 12;
      for (const { error } of reply.value.refused) bytes += error === undefined ? 0 : errorBytes(error);
      return bytes + reply.value.renewed.length * 12;
    case 'lease':
      for (const { queue, pid, data } of reply.value.tasks) bytes += queue.length + pid.length + data.length + 48;
      return bytes;
    case 'wait':
      for (const { result, error } of reply.value.ended)
        bytes += 48 + (result?.length ?? 0) + (error?.message.length ?? 0);
      return bytes;
    case 'events':
      for (const { position, queue, pid, text } of reply.value.events)
        bytes += 48 + position.length + queue.length + pid.length + text.length;
      return bytes;
    case 'error':
      return errorBytes(reply.value);
  }
}

function errorBytes({ items, message }: WireError): number {
  let bytes = message.length + 256;
  for (const { queue, pid } of items) bytes += queue.length + pid.length + 24;
  return bytes;
}
