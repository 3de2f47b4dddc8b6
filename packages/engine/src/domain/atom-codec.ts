import type { ApplyAtom, CreatedQueue, DroppedQueue, RecordedRequest, TaskChange } from './atom.ts';
import { ByteReader, type ByteWriter, UnreadableBytesError } from './bytes.ts';
import { decodeEvent, type EventsOfAtom, encodeEvents } from './events.ts';
import type { Instant, PartitionId, Pid, QueueId, Ticket } from './ids.ts';
import { countedHistory } from './task.ts';
import { readTaskState, writeTaskState } from './task-codec.ts';

/** Version 3 adds what a task keeps of its past to its state, version 2 the instant at which it became due. */
const VERSION = 3;
/** As version 3, with the events of the groups that have readers. */
const WITH_EVENTS = 4;
const READABLE = [2, VERSION, WITH_EVENTS];
const ENQUEUE = 1;
const CHANGE = 2;
const DEQUEUE = 3;
const COMPLETED = 4;
const NO_DATA = 0;
const WITH_DATA = 1;

/**
 * Writes the log entry of an atom. Its key has the partition and the ticket. `withData`: include payloads. This is necessary
 * if the store may keep the entry and lose the rows.
 */
export function writeAtom(writer: ByteWriter, atom: ApplyAtom, withData: boolean): void {
  writer.byte(atom.events === undefined ? VERSION : WITH_EVENTS);
  writer.number(atom.at);
  writer.number(atom.created.length);
  for (const { queueId, name } of atom.created) {
    writer.number(queueId);
    writer.utf8(name.group);
    writer.utf8(name.name);
  }
  writer.number(atom.changes.length);
  for (const change of atom.changes) writeChange(writer, change, withData);
  writer.number(atom.dropped.length);
  for (const { queueId, reap } of atom.dropped) {
    writer.number(queueId);
    writer.byte(reap ? 1 : 0);
  }
  writer.byte(atom.request ? 1 : 0);
  if (atom.request) {
    writer.latin1(atom.request.id);
    writer.latin1(atom.request.outcome);
  }
  if (atom.events !== undefined) writeEvents(writer, atom.events);
}

export function decodeAtom(partition: PartitionId, ticket: Ticket, bytes: Uint8Array): ApplyAtom {
  const from = new ByteReader(bytes);
  const version = from.version(READABLE, `log entry ${ticket} of partition ${partition}`);
  const at = from.number() as Instant;
  const created = times(
    from.number(),
    (): CreatedQueue => ({
      queueId: from.number() as QueueId,
      name: { group: from.utf8(), name: from.utf8() },
    }),
  );
  const changes = times(from.number(), () => readChange(from));
  const dropped = times(
    from.number(),
    (): DroppedQueue => ({ queueId: from.number() as QueueId, reap: from.byte() === 1 }),
  );
  const request: RecordedRequest | undefined =
    from.byte() === 1 ? { id: from.latin1(), outcome: from.latin1() } : undefined;
  const events = version === WITH_EVENTS ? readEvents(from) : undefined;
  return { partition, ticket, at, created, changes, dropped, request, events };
}

/** The events of a log entry whose atom is not replayed. Undefined: no group had readers. */
export const eventsOfEntry = (partition: PartitionId, ticket: Ticket, bytes: Uint8Array): ApplyAtom['events'] =>
  bytes[0] === WITH_EVENTS ? decodeAtom(partition, ticket, bytes).events : undefined;

function writeEvents(out: ByteWriter, { isWhole, groups }: EventsOfAtom): void {
  out.byte(isWhole ? 1 : 0);
  out.number(groups.length);
  for (const { group, events, encoded } of groups) {
    out.utf8(group);
    out.number(events.length);
    out.part(encoded, 0, encoded.byteLength);
  }
}

const readEvents = (from: ByteReader): EventsOfAtom => ({
  isWhole: from.byte() === 1,
  groups: times(from.number(), () => {
    const group = from.utf8();
    const events = times(from.number(), () => decodeEvent(from.blob()));
    return { group, events, encoded: encodeEvents(events) };
  }),
});

function writeChange(out: ByteWriter, change: TaskChange, withData: boolean): void {
  switch (change.kind) {
    case 'enqueue':
      out.byte(ENQUEUE);
      break;
    case 'change':
      out.byte(CHANGE);
      break;
    case 'dequeue':
      out.byte(change.completed ? COMPLETED : DEQUEUE);
      break;
    default:
      change satisfies never;
  }
  out.number(change.queueId);
  out.latin1(change.pid);
  // The earlier state only tells which rows and counters change, so nearly all of its history is left out.
  if (change.kind !== 'enqueue') writeTaskState(out, change.before, countedHistory(change.before.history));
  if (change.kind !== 'dequeue') {
    writeTaskState(out, change.after, change.after.history);
    const data = withData ? change.data : undefined;
    out.byte(data ? WITH_DATA : NO_DATA);
    if (data) out.blob(data);
  }
}

function readChange(from: ByteReader): TaskChange {
  const kind = from.byte();
  const queueId = from.number() as QueueId;
  const pid = from.latin1() as Pid;
  switch (kind) {
    case ENQUEUE:
      return { kind: 'enqueue', queueId, pid, after: readTaskState(from), data: readData(from) };
    case CHANGE:
      return {
        kind: 'change',
        queueId,
        pid,
        before: readTaskState(from),
        after: readTaskState(from),
        data: readData(from),
      };
    case DEQUEUE:
    case COMPLETED:
      return { kind: 'dequeue', queueId, pid, before: readTaskState(from), completed: kind === COMPLETED };
    default:
      throw new UnreadableBytesError(`unknown change ${kind}`);
  }
}

const readData = (from: ByteReader): Uint8Array | undefined => (from.byte() === WITH_DATA ? from.blob() : undefined);

const times = <T>(count: number, make: () => T): T[] => {
  const made: T[] = [];
  for (let i = 0; i < count; i++) made.push(make());
  return made;
};
