import { Refusal } from '@taskmaster/engine/domain';
import { formatQueueName, parseQueueName, type QueueName, type QueuePlace } from '@taskmaster/proto';
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

/** Begins the token behind a queue with trouble. No name has this character. */
const TROUBLED = '\uFFFD';

/** As `pageTokenAfter`, in a listing by trouble. */
export function pageTokenBehind({ queue, rank, since }: QueuePlace): string {
  const name = parseQueueName(queue);
  if (rank === 0) return pageTokenAfter(name);
  return Buffer.from(`${TROUBLED}${rank}:${since}:${pageTokenAfter(name)}`).toString('base64url');
}

/** As `parsePageToken`, in a listing by trouble. */
export function parsePlaceToken(token: string): QueuePlace | undefined {
  const text = Buffer.from(token, 'base64url').toString();
  const found = /^\uFFFD(\d{1,3}):(\d{1,15}):([\w-]+)$/.exec(text);
  const name = parsePageToken(found?.[3] ?? token);
  return name && { queue: formatQueueName(name), rank: Number(found?.[1] ?? 0), since: Number(found?.[2] ?? 0) };
}
