import type {
  Call,
  CountsReply,
  EndReply,
  History,
  LeasedReply,
  Outcome,
  RefusedItemReply,
  ShownTask,
  TaskCall,
  UpdateCall,
} from '@taskmaster/cli/testing/history';
import type { Engine } from '@taskmaster/engine';
import {
  type EnqueueOutcome,
  givenIn,
  KindFilter,
  type LeasedTask,
  type LeaseToken,
  NO_LINKS,
  type Payload,
  type Pid,
  type QueueStats,
  Refusal,
  type TaskEnd,
  type TaskView,
  type UpdateCommand,
  type UpdateOutcome,
  UpdateRefusal,
} from '@taskmaster/engine/domain';
import { limitQueues, pauseQueues, resumeQueues, unlimitQueues } from '@taskmaster/engine/testing';
import { EnqueueMode, EnqueueResult, formatQueueName, ItemKind, parseQueueName } from '@taskmaster/proto';
import { RESULT_MS } from './ends.ts';
import { sentEnqueues } from './records/topics.ts';
import { NOT_STARTED } from './rules.ts';

/** A call in progress. */
export interface Asked {
  readonly ended: Promise<Outcome>;
  hangUp(): void;
  /** Call this when the node stops: from now on an empty answer says nothing about the queues. */
  dismiss(): void;
}

/** Calls an engine and records the outcome. */
export function ask(engine: Engine, call: Call, history: History, now: () => number, atomicBatches: boolean): Asked {
  const abort = new AbortController();
  let dismissed = false;
  const recording = history.begin(call, now());
  const ended = answer(engine, call, abort.signal)
    .catch((error: unknown) => refused(error, call, atomicBatches))
    .then((outcome) => {
      const told: Outcome = outcome.kind === 'leased' ? { ...outcome, dismissed } : outcome;
      return recording.end(told, now());
    });
  return {
    ended,
    hangUp: () => {
      recording.hangUp();
      abort.abort();
    },
    dismiss: () => {
      dismissed = true;
    },
  };
}

async function answer(engine: Engine, call: Call, signal: AbortSignal): Promise<Outcome> {
  switch (call.kind) {
    case 'update':
      return updated(await engine.updates.apply(commandOf(call)));
    case 'lease': {
      const { queues, maxPid, kinds, ...rest } = call;
      const command = {
        ...rest,
        queues: queues.map(parseQueueName),
        maxPid: maxPid as Pid | undefined,
        kinds: kinds && new KindFilter(kinds),
        worker: 'worker',
        workerAddress: '127.0.0.1:1',
      };
      const tasks = await engine.leaseTasks(command, { signal });
      return { kind: 'leased', tasks: tasks.map(leasedTask), dismissed: false };
    }
    case 'get': {
      const pids = call.pids as Pid[];
      const { keys } = call;
      const tasks = await engine.getTasks({ queue: parseQueueName(call.queue), pids, keys, includeData: true });
      return { kind: 'shown', tasks: tasks.map(shownTask) };
    }
    case 'peek': {
      const { queue, what, limit } = call;
      const tasks = await engine.peekTasks({ queue: parseQueueName(queue), kind: what, limit, includeData: true });
      return { kind: 'shown', tasks: tasks.map(shownTask) };
    }
    case 'ends': {
      const queue = parseQueueName(call.queue);
      const tasks = call.pids.map((pid) => ({ queue, pid: pid as Pid, token: undefined }));
      const ended = await engine.waitForTasks({ group: queue.group, tasks, waitMs: 0 });
      const byIndex = new Map(ended.map(({ index, end }) => [index, end]));
      return { kind: 'ended', tasks: call.pids.map((pid, index) => endOf(pid, byIndex.get(index))) };
    }
    case 'stats': {
      const report = await engine.queueStats({ kind: 'named', queues: call.queues.map(parseQueueName) });
      return { kind: 'counts', queues: report.queues.map(counts) };
    }
    case 'list': {
      const page = await engine.listQueues({ filter: EVERYTHING, limit: 1000, after: undefined });
      return { kind: 'counts', queues: page.queues.map(counts) };
    }
    case 'delete':
      return { kind: 'number', tasks: await engine.deleteQueue(parseQueueName(call.queue)) };
    case 'reset':
      return { kind: 'number', tasks: await engine.resetLeases(parseQueueName(call.queue)) };
    case 'pause': {
      if (call.isResume) return { kind: 'number', tasks: (await resumeQueues(engine, call.queues)).resumed ? 1 : 0 };
      await pauseQueues(engine, call.queues);
      return { kind: 'number', tasks: 1 };
    }
    case 'limit': {
      const { queues, keys = '', maxLeased } = call;
      if (maxLeased === 0)
        return { kind: 'number', tasks: (await unlimitQueues(engine, queues, keys)).removed ? 1 : 0 };
      await limitQueues(engine, queues, { keys, maxLeased });
      return { kind: 'number', tasks: 1 };
    }
    default:
      return call satisfies never;
  }
}

const EVERYTHING = {
  matches: undefined,
  group: undefined,
  minAvailable: undefined,
  maxAvailable: undefined,
  minLeased: undefined,
  maxLeased: undefined,
  minDelayed: undefined,
  maxDelayed: undefined,
};

const MODES = {
  collapse: EnqueueMode.ENQUEUE_MODE_COLLAPSE,
  fail: EnqueueMode.ENQUEUE_MODE_FAIL,
  replace: EnqueueMode.ENQUEUE_MODE_REPLACE,
  rerun: EnqueueMode.ENQUEUE_MODE_RERUN,
  'rerun-first': EnqueueMode.ENQUEUE_MODE_RERUN_FIRST,
};

const RESULTS: ReadonlyMap<EnqueueResult, 'created' | 'collapsed' | 'replaced' | 'rerun' | 'kept-out' | 'dropped'> =
  new Map([
    [EnqueueResult.ENQUEUE_RESULT_CREATED, 'created'],
    [EnqueueResult.ENQUEUE_RESULT_COLLAPSED, 'collapsed'],
    [EnqueueResult.ENQUEUE_RESULT_REPLACED, 'replaced'],
    [EnqueueResult.ENQUEUE_RESULT_RERUN, 'rerun'],
    [EnqueueResult.ENQUEUE_RESULT_KEPT_OUT, 'kept-out'],
    [EnqueueResult.ENQUEUE_RESULT_DROPPED, 'dropped'],
  ]);

const KINDS: ReadonlyMap<ItemKind, RefusedItemReply['kind']> = new Map([
  [ItemKind.ITEM_KIND_ENQUEUE, 'enqueue'],
  [ItemKind.ITEM_KIND_DEQUEUE, 'dequeue'],
  [ItemKind.ITEM_KIND_RENEW, 'renew'],
  [ItemKind.ITEM_KIND_RELEASE, 'release'],
]);

function commandOf(call: UpdateCall): UpdateCommand {
  const item = ({ queue, pid, key, token }: TaskCall) => ({
    queue: parseQueueName(queue),
    pid: pid as Pid,
    key,
    token: token as LeaseToken | undefined,
  });
  const [first] = [...call.enqueue, ...call.dequeue, ...call.renew, ...call.release];
  return {
    group: parseQueueName(first?.queue ?? '').group,
    enqueue: sentEnqueues(call.enqueue)
      .flatMap((at) => call.enqueue.slice(at, at + 1))
      .map(
        ({
          queue,
          topic,
          pid,
          key,
          data,
          mode,
          delayMs,
          retry,
          timeLimitMs,
          startWithinMs,
          limitKey,
          kind,
          orderKey,
        }) => ({
          queue: parseQueueName(topic ?? queue),
          isPublished: topic !== undefined,
          pid: pid as Pid | undefined,
          data: Buffer.from(data, 'latin1'),
          headerBytes: headerBytesOf(data),
          key,
          given: givenIn({ timeLimitMs: timeLimitMs ?? 0, limitKey: limitKey ?? '', kind }),
          start: startWithinMs === undefined ? undefined : { withinMs: startWithinMs },
          links: orderKey === undefined ? undefined : { ...NO_LINKS, orderKey },
          mode: MODES[mode],
          delayMs,
          runAt: undefined,
          retry,
        }),
      ),
    dequeue: call.dequeue.map((dequeue) => ({
      ...item(dequeue),
      requeue: dequeue.requeue ?? false,
      result: dequeue.result === undefined ? undefined : { data: Buffer.from(dequeue.result), keepMs: RESULT_MS },
      cancelReason: dequeue.cancel ? 'no longer wanted' : undefined,
    })),
    renew: call.renew.map((renewal) => ({
      ...item(renewal),
      leaseDurationMs: renewal.leaseDurationMs,
      begun: renewal.begun,
      progress: renewal.progress,
      // Both travel in the same way, so they must be the same text in each answer.
      checkpoint: renewal.progress === undefined ? undefined : Buffer.from(renewal.progress),
    })),
    release: call.release.map((release) => ({
      ...item(release),
      delayMs: release.delayMs,
      refundAttempt: release.refund,
      interrupted: release.interrupted ?? false,
      error: release.error === undefined ? undefined : { message: release.error, details: '' },
      deadLetter: release.deadLetter ?? false,
      runAt: undefined,
      waiting: release.waiting ?? false,
    })),
    publishes: call.enqueue.some(({ topic }) => topic !== undefined),
    requestId: call.requestId,
  };
}

/** How many bytes of a payload are headers: every third payload has its name in them. */
function headerBytesOf(data: string): number {
  const name = /^d(\d+)/.exec(data);
  return name !== null && Number(name[1]) % 3 === 0 ? name[0].length : 0;
}

/** The text of a payload. It fits no enqueue if it has other headers than the enqueue. */
function payloadText({ data, headerBytes }: Payload): string {
  const text = Buffer.from(data).toString('latin1');
  return headerBytes === headerBytesOf(text) ? text : `${headerBytes} bytes of headers in ${text}`;
}

function updated({ enqueued, renewed, released }: UpdateOutcome): Outcome {
  return {
    kind: 'updated',
    enqueued: enqueued
      .flatMap((outcome): readonly EnqueueOutcome[] => outcome.published ?? [outcome])
      .map(({ pid, result, leased }) => ({ pid, result: RESULTS.get(result) ?? 'created', leased })),
    renewed: renewed.map(({ until }) => ({ until })),
    released: released.map(({ until, deadLetterQueue }) => ({ until, deadLetterQueue })),
  };
}

const leasedTask = ({ queue, pid, data, headerBytes, ...told }: LeasedTask): LeasedReply => ({
  queue: formatQueueName(queue),
  pid,
  data: payloadText({ data, headerBytes }),
  token: told.token,
  until: told.until,
  attempt: told.attempt,
  enqueuedAt: told.enqueuedAt,
  timeLimitMs: told.timeLimitMs,
  unbegun: told.unbegun,
});

function shownTask({ queue, pid, state, data }: TaskView): ShownTask {
  if (!state) return { pid, state: undefined, data: undefined };
  const { failures = [], origin, progress, checkpoint, cancelled, given, startBy } = state.history ?? {};
  const history = {
    failures: failures.map(({ attempt, error }) => `${attempt}: ${reasonOf(error?.message)}`),
    timeLimitMs: given?.timeLimitMs || undefined,
    startBy,
    origin: origin && formatQueueName({ group: queue.group, name: origin.queue }),
    progress: reportedText(progress?.text, checkpoint),
    isCancelled: cancelled !== undefined,
    interruptions: state.history?.interruptions ?? 0,
  };
  const { visibility, attempts, token, enqueuedAt } = state;
  const kind = visibility.kind === 'available' ? 'available' : visibility.lease ? 'leased' : 'delayed';
  const until = visibility.kind === 'hidden' ? visibility.until : undefined;
  const { headerBytes } = state;
  const shown = data && payloadText({ data, headerBytes });
  return { pid, state: { kind, until, attempts, token, enqueuedAt, ...history }, data: shown };
}

/** The text of a report. It fits no report if the checkpoint is another one. */
function reportedText(text: string | undefined, checkpoint: Uint8Array | undefined): string | undefined {
  const other = checkpoint && Buffer.from(checkpoint).toString();
  return other === text ? text : `${text}, but the checkpoint is ${other}`;
}

/** The model does not know the instant if no reply tells when the task was enqueued. */
const reasonOf = (message = 'expired'): string => message.replace(/^not started by .*/, NOT_STARTED);

const endOf = (pid: string, end: TaskEnd | undefined): EndReply => ({
  pid,
  outcome: end?.outcome,
  result: end?.result && Buffer.from(end.result).toString('latin1'),
});

const counts = ({ queue, available, leased, delayed, completed }: QueueStats): CountsReply => ({
  queue: formatQueueName(queue),
  available,
  leased,
  delayed,
  completed,
});

function refused(error: unknown, call: Call, atomicBatches: boolean): Outcome {
  // A crashed process sends no answer. The model explains no other error than a refusal.
  if (!(error instanceof Refusal)) return { kind: 'refused', reason: `not a refusal: ${error}`, items: [] };
  // Without atomic batches the log entry may be on disk although there was no space for its rows.
  if (error.reason === 'DISK_FULL' && !atomicBatches) return { kind: 'unknown' };
  const items = error instanceof UpdateRefusal ? error.items : [];
  return {
    kind: 'refused',
    reason: error.reason,
    items: items.map(({ kind, index, reason }): RefusedItemReply => {
      const isEnqueue = kind === ItemKind.ITEM_KIND_ENQUEUE && call.kind === 'update';
      const at = isEnqueue ? (sentEnqueues(call.enqueue)[index] ?? index) : index;
      return { kind: KINDS.get(kind) ?? 'enqueue', index: at, reason };
    }),
  };
}
