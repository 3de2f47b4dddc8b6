import { EventKind, ReadEventsResponse } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { EventFilter, encodeEvents, type GroupEvent } from '../domain/events.ts';
import type { Instant, PartitionId, Pid, Ticket } from '../domain/ids.ts';
import { WatchedGroup } from './watched-group.ts';

const EVENTS = 2_000;
const TICKET = 2 as Ticket;
const ID = 1 as PartitionId;

/** A group with one atom of many events, and how many of them were looked at since. */
function manyEvents() {
  const events = Array.from({ length: EVENTS }, (_, at): GroupEvent => {
    const place = { queue: 'g#q', pid: `${at}` as Pid, key: '', worker: '', text: '', to: undefined };
    return { kind: EventKind.EVENT_KIND_ENQUEUED, at: 0 as Instant, attempts: 0, tasks: 0, ...place };
  });
  const looks = { count: 0 };
  const counted = new Proxy(events, {
    get(of, name) {
      if (typeof name === 'string' && /^\d+$/.test(name)) looks.count++;
      return Reflect.get(of, name) as unknown;
    },
  });
  const group = new WatchedGroup('g', { id: ID, life: 0 }, 1 as Ticket, 0 as Instant);
  group.note(TICKET, counted, encodeEvents(events));
  looks.count = 0;
  return { group, looks };
}

function readerOf(group: WatchedGroup) {
  let position = { partition: ID, life: 0, ticket: 1 as Ticket, count: 0 };
  const filter = new EventFilter({ group: 'g', name: '*' }, undefined, {});
  return (most: number): string[] => {
    const command = { group: 'g', after: undefined, filter, most, waitMs: 0 };
    const page = group.page(position, command, TICKET);
    position = page.position;
    const { events } = ReadEventsResponse.decode(page.encoded ?? new Uint8Array());
    return events.map(({ pid }) => Buffer.from(pid).toString());
  };
}

test('a page goes on in a large atom where the last one ended, and does not walk all events before', () => {
  const { group, looks } = manyEvents();
  const read = readerOf(group);
  for (let at = 0; at < EVENTS; at++) expect(read(1)).toEqual([`${at}`]);
  expect(read(1)).toEqual([]);
  expect(looks.count).toBeLessThan(3 * EVENTS);
});

test('two readers in the same atom get each event once, wherever the other one is', () => {
  const { group } = manyEvents();
  const [fast, slow] = [readerOf(group), readerOf(group)];
  const [first, second]: string[][] = [[], []];
  for (let pages = 0; pages < 200; pages++) {
    first?.push(...fast(9));
    second?.push(...slow(2));
  }
  for (let pages = 0; pages < 2; pages++) second?.push(...slow(1_000));
  const all = Array.from({ length: EVENTS }, (_, at) => `${at}`);
  expect(first).toEqual(all.slice(0, 1_800));
  expect(second).toEqual(all);
});
