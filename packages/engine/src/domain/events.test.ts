import { Event, EventKind } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { ByteReader } from './bytes.ts';
import { decodeEvent, encodeEvents, type GroupEvent } from './events.ts';
import type { Instant, Pid } from './ids.ts';

const plain: GroupEvent = {
  kind: EventKind.EVENT_KIND_QUEUE_DELETED,
  at: 1_780_000_000_123 as Instant,
  queue: 'g#q',
  pid: '' as Pid,
  key: '',
  attempts: 0,
  worker: '',
  text: '',
  to: undefined,
  tasks: 3_000_000_000,
};
const moved: GroupEvent = {
  kind: EventKind.EVENT_KIND_DEAD_LETTERED,
  at: 1 as Instant,
  queue: 'größe#q',
  pid: '\x00\xffp'.padEnd(300, '.') as Pid,
  key: 'k',
  attempts: 200,
  worker: 'wörker'.padEnd(40, '.'),
  text: '\u{1f600} broken',
  to: { queue: 'g#lost', pid: 'p~\x80' as Pid },
  tasks: 0,
};

const messageOf = ({ at, pid, to, ...event }: GroupEvent): Event => ({
  ...event,
  position: '',
  atUnixMs: at,
  pid: Buffer.from(pid, 'latin1'),
  toQueue: to?.queue ?? '',
  toPid: Buffer.from(to?.pid ?? '', 'latin1'),
});

test('events are encoded as the generated encoder does it', () => {
  const from = new ByteReader(encodeEvents([moved, plain, moved]));
  for (const event of [moved, plain, moved]) {
    const bytes = from.blob();
    expect(Buffer.from(bytes)).toEqual(Buffer.from(Event.encode(messageOf(event)).finish()));
    expect(decodeEvent(bytes)).toEqual(event);
  }
  expect(from.atEnd).toBe(true);
});
