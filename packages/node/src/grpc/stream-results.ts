import type { StreamResult } from '@taskmaster/proto';

/** Answers are joined into messages of about this size; one that is larger by itself travels alone. */
const MESSAGE_BYTES = 1024 * 1024;

/** Splits answers into messages. */
export function toMessages(results: readonly StreamResult[]): StreamResult[][] {
  const messages: StreamResult[][] = [];
  let message: StreamResult[] = [];
  let bytes = 0;
  for (const result of results) {
    const more = aboutBytes(result);
    if (message.length > 0 && bytes + more > MESSAGE_BYTES) {
      messages.push(message);
      message = [];
      bytes = 0;
    }
    message.push(result);
    bytes += more;
  }
  if (message.length > 0) messages.push(message);
  return messages;
}

/** About how long an answer is on the wire. */
function aboutBytes({ result }: StreamResult): number {
  let bytes = 24;
  switch (result?.$case) {
    case 'update':
      for (const { pid } of result.value.enqueued) bytes += pid.length + 8;
      for (const { deadLetterQueue } of result.value.released) bytes += deadLetterQueue.length + 12;
      return bytes + result.value.renewed.length * 12;
    case 'lease':
      for (const { queue, pid, data } of result.value.tasks) bytes += queue.length + pid.length + data.length + 48;
      return bytes;
    case 'error':
      for (const item of result.value.items) bytes += item.queue.length + item.pid.length + 24;
      return bytes + result.value.message.length + 256;
    case undefined:
      return bytes;
  }
}
