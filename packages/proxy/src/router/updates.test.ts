import { aDequeue, anEnqueue, anUpdate, aRelease, aRenew, bytes } from '@taskmaster/server/testing';
import { describe, expect, test } from 'vitest';
import { routeOf } from './updates.ts';

describe('the route of an update', () => {
  test.each<[string, Parameters<typeof anUpdate>[0], string]>([
    ['an enqueue', { enqueue: [anEnqueue({ queue: 'g#a' }), anEnqueue({ queue: 'g#b' })] }, 'g#a'],
    ['a publication', { enqueue: [anEnqueue({ queue: '', topic: 'g#t' })] }, 'g#t'],
    [
      'a publication beside a queue, which a node refuses',
      { enqueue: [anEnqueue({ queue: 'h#q', topic: 'g#t' })] },
      'g#t',
    ],
    ['a dequeue', { dequeue: [aDequeue({ queue: 'g#c' })] }, 'g#c'],
    ['a renewal', { renew: [aRenew({ queue: 'g#c' })] }, 'g#c'],
    ['a release', { release: [aRelease({ queue: 'g#c' })] }, 'g#c'],
    [
      'an item without a name before one with',
      { dequeue: [aDequeue({ queue: '' }), aDequeue({ queue: 'g#d' })] },
      'g#d',
    ],
  ])('by %s', (_what, change, queue) => {
    expect(routeOf(anUpdate(change)).queue).toBe(queue);
  });

  test('names what it takes rights for', () => {
    expect(routeOf(anUpdate({ enqueue: [anEnqueue()] }))).toMatchObject({ creates: true, changes: false });
    const changes = [{ dequeue: [aDequeue()] }, { renew: [aRenew()] }, { release: [aRelease()] }];
    for (const change of changes) expect(routeOf(anUpdate(change))).toMatchObject({ creates: false, changes: true });
  });

  test('says whether it may be repeated, and how many parts it has', () => {
    const part = { enqueues: 1, dequeues: 0, renewals: 0, releases: 0 };
    const enqueue = [anEnqueue(), anEnqueue({ pid: bytes('b') })];
    expect(routeOf(anUpdate({ enqueue, requestId: bytes('id'), parts: [part, part] }))).toMatchObject({
      hasRequestId: true,
      parts: 2,
    });
    expect(routeOf(anUpdate({ enqueue }))).toMatchObject({ hasRequestId: false, parts: 0 });
  });

  test.each([
    ['no item', {}, 'EMPTY_REQUEST'],
    [
      'items without a queue',
      { dequeue: [aDequeue({ queue: '' })], enqueue: [anEnqueue({ queue: '' })] },
      'INVALID_QUEUE',
    ],
  ])('does not exist for an update with %s', (_what, change, reason) => {
    expect(() => routeOf(anUpdate(change))).toThrow(expect.objectContaining({ reason }));
  });
});
