import { pidFromText, type QueueEvent } from '@taskmaster/client';
import { expect, test } from 'vitest';
import { Board } from './board.ts';

const event = (kind: QueueEvent['kind'], ms: number, more: Partial<QueueEvent> = {}): QueueEvent => ({
  kind,
  position: '',
  at: new Date(ms),
  queue: 'shop#mail',
  pid: pidFromText('a'),
  id: 'a',
  key: undefined,
  attempts: 0,
  worker: undefined,
  text: undefined,
  movedTo: undefined,
  tasks: undefined,
  ...more,
});

test('a task goes from its queue to its dead letters and back, and is dropped with its queue', () => {
  const board = new Board();
  const row = board.apply(event('enqueued', 1_000, { text: '{"to":"ann"}', key: 'order-1' }));
  expect(row).toMatchObject({ state: 'waiting', data: '{"to":"ann"}', key: 'order-1' });
  board.apply(event('leased', 2_000, { attempts: 1 }));
  expect(row).toMatchObject({ state: 'running', leasedAt: 2_000, tookMs: undefined });
  board.apply(event('failed', 2_030, { attempts: 1, text: 'boom' }));
  expect(row).toMatchObject({ state: 'failed', tookMs: 30, text: 'boom', attempt: 1 });
  board.apply(event('changed', 2_500));
  expect(row).toMatchObject({ state: 'waiting' });
  board.apply(event('leased', 3_000, { attempts: 2 }));
  const dead = { queue: 'shop#mail.dead', pid: pidFromText('b') };
  board.apply(event('dead-lettered', 3_005, { attempts: 2, movedTo: dead }));
  expect(row).toMatchObject({ state: 'dead', tookMs: 5, ...dead });
  board.apply(event('moved', 4_000, { ...dead, movedTo: { queue: 'shop#mail', pid: pidFromText('a') } }));
  expect(row).toMatchObject({ state: 'waiting', queue: 'shop#mail', attempt: 0 });
  expect(board.rows).toEqual([row]);
  expect(board.apply(event('queue-deleted', 5_000, { pid: undefined, tasks: 1 }))).toBeUndefined();
  expect(row).toMatchObject({ state: 'removed', at: 5_000 });
  expect(board.counts).toEqual({ enqueued: 1, completed: 0, failed: 1, dead: 1 });
});

test('a later task with the PID of one that has ended begins anew', () => {
  const board = new Board();
  const first = board.apply(event('completed', 1_000, { attempts: 3 }));
  const second = board.apply(event('enqueued', 2_000));
  expect(first).toMatchObject({ state: 'completed' });
  expect(board.rows).toEqual([second]);
  expect(second).toMatchObject({ state: 'waiting', attempt: 0 });
});

test('tasks that have ended longest ago make room for others', () => {
  const board = new Board();
  board.apply(event('failed', 1, { pid: pidFromText('failed') }));
  for (let at = 0; at < 1_000; at++) board.apply(event('completed', at, { pid: pidFromText(`t${at}`) }));
  const { rows } = board;
  expect(rows).toHaveLength(500);
  expect(rows[0]?.at).toBe(999);
  expect(rows.at(-1)).toMatchObject({ state: 'failed' });
});
