import {
  EventFilter,
  type GetCommand,
  OLDEST,
  type PeekCommand,
  parsePosition,
  type ReadEventsCommand,
  type WaitCommand,
} from '@taskmaster/engine/domain';
import {
  EventKind,
  type GetTasksRequest,
  limits,
  PeekKind,
  type PeekTasksRequest,
  type ReadEventsRequest,
  type WaitForTasksRequest,
} from '@taskmaster/proto';
import {
  checkTraceparent,
  countAtMost,
  duration,
  excerpt,
  leaseToken,
  parseKinds,
  pid,
  pidOrNone,
  queueName,
  refuse,
  taskKey,
  wholeNumber,
} from '@taskmaster/server/requests';
import { OneGroup } from './one-group.ts';

const kinds: ReadonlyMap<number, PeekCommand['kind']> = new Map([
  [PeekKind.PEEK_KIND_UNSPECIFIED, 'head'],
  [PeekKind.PEEK_KIND_HEAD, 'head'],
  [PeekKind.PEEK_KIND_LEASED, 'leased'],
  [PeekKind.PEEK_KIND_DELAYED, 'delayed'],
  [PeekKind.PEEK_KIND_WAITING, 'waiting'],
]);

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parsePeek(request: PeekTasksRequest): PeekCommand {
  const kind = kinds.get(request.kind);
  if (kind === undefined) {
    return refuse('INVALID_ARGUMENT', { field: 'kind' }, `is ${request.kind}: no such kind`, { value: request.kind });
  }
  const after = pidOrNone(request.afterPid, { field: 'after_pid' });
  if (after !== undefined && kind !== 'head') {
    refuse('INVALID_ARGUMENT', { field: 'after_pid' }, 'is given for tasks that are not in the order of their PIDs');
  }
  return {
    queue: queueName(request.queue, { field: 'queue' }),
    kind,
    limit: wholeNumber(request.limit, { field: 'limit' }, 1, limits.peekTasks),
    after,
    includeData: request.includeData,
    kinds: request.kinds && parseKinds(request.kinds),
  };
}

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseGet(request: GetTasksRequest): GetCommand {
  const { pids, keys } = request;
  const count = pids.length + keys.length;
  if (count === 0) refuse('EMPTY_REQUEST', { field: 'pids' }, 'is empty: give at least one PID or key');
  countAtMost(count, { field: 'pids' }, limits.peekTasks);
  return {
    queue: queueName(request.queue, { field: 'queue' }),
    pids: pids.map((bytes, index) => pid(bytes, { list: 'pids', index, field: '' })),
    keys: keys.map((key, index) => taskKey(key, { list: 'keys', index, field: '' })),
    includeData: request.includeData,
    includeSignals: request.includeSignals ?? false,
    includeChildren: request.includeChildren ?? false,
  };
}

const eventKinds: ReadonlySet<number> = new Set(Object.values(EventKind).filter((kind) => kind > 0));

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseReadEvents(request: ReadEventsRequest): ReadEventsCommand {
  const { task, kinds, maxEvents } = request;
  checkTraceparent(request);
  const queues = queueName(request.queues, { field: 'queues' });
  countAtMost(kinds.length, { field: 'kinds' }, limits.eventKinds);
  for (const [index, kind] of kinds.entries()) {
    if (!eventKinds.has(kind)) {
      refuse('INVALID_ARGUMENT', { list: 'kinds', index, field: '' }, `is ${kind}: no such kind`, { value: kind });
    }
  }
  const { after: given } = request;
  const after = given === '' ? undefined : given === OLDEST ? OLDEST : parsePosition(given);
  if (after === undefined && given !== '') {
    refuse('INVALID_ARGUMENT', { field: 'after' }, `is ${excerpt(given)}: no position`);
  }
  const named = {
    pid: task?.$case === 'pid' ? pid(task.value, { field: 'pid' }) : undefined,
    key: task?.$case === 'key' ? taskKey(task.value, { field: 'key' }) : undefined,
  };
  return {
    group: queues.group,
    after,
    filter: new EventFilter(queues, kinds.length === 0 ? undefined : new Set(kinds), named),
    most: wholeNumber(maxEvents, { field: 'max_events' }, 0, limits.readEvents) || limits.readEvents,
    waitMs: duration(request.waitMs, { field: 'wait_ms' }, 0, limits.waitMs),
  };
}

/** Throws a `Refusal` unless the engine can take the request as it is. */
export function parseWait(request: WaitForTasksRequest): WaitCommand {
  if (request.tasks.length === 0) refuse('EMPTY_REQUEST', { field: 'tasks' }, 'is empty: name at least one task');
  countAtMost(request.tasks.length, { field: 'tasks' }, limits.awaitedTasks);
  checkTraceparent(request);
  const group = new OneGroup();
  const tasks = request.tasks.map((task, index) => ({
    queue: group.queue(task.queue, 'tasks', index, 'queue'),
    pid: pid(task.pid, { list: 'tasks', index, field: 'pid' }),
    token: leaseToken(task.leaseToken ?? 0, { list: 'tasks', index, field: 'lease_token' }),
  }));
  const waitMs = duration(request.waitMs, { field: 'wait_ms' }, 0, limits.waitMs);
  return { group: group.name, tasks, waitMs };
}
