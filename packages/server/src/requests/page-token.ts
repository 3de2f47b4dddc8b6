import { Refusal } from '@taskmaster/engine/domain';
import type { QueueName } from '@taskmaster/proto';
import { queueName } from './queue-names.ts';

/** Position after this queue, where the next page of a listing begins. Opaque to clients. */
export function pageTokenAfter(queue: QueueName): string {
  return Buffer.from(`${queue.group}#${queue.name}`).toString('base64url');
}

/** The last queue of the page before; undefined for an empty token: from the first queue on. */
export function parsePageToken(token: string): QueueName | undefined {
  if (token === '') return undefined;
  try {
    const queue = queueName(Buffer.from(token, 'base64url').toString(), { field: 'page_token' });
    // The decoder skips characters that are not base64. Only a token that encodes to itself was made here.
    if (pageTokenAfter(queue) === token) return queue;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
  }
  throw new Refusal('INVALID_PAGE_TOKEN', 'page_token is not one that a reply of this service carried', {
    metadata: { field: 'page_token' },
  });
}
