import {
  type BulkCommand,
  type BulkOperations,
  type BulkPlace,
  bulkActions,
  bulkTasks,
  type EndedBulkRun,
  isFiltering,
  namePattern,
  type Pid,
  type QueueId,
} from '@taskmaster/engine/domain';
import {
  BulkAction,
  type BulkFilter,
  type BulkPlace as BulkPlaceMessage,
  BulkRunState,
  type BulkSpec,
  bulkName,
  formatQueueName,
  limits,
  type QueueName,
  type StartBulkRunRequest,
} from '@taskmaster/proto';
import { callerName, type TaskHandlers } from '@taskmaster/server/calls';
import type { AuditEvent } from '@taskmaster/server/ports';
import {
  duration,
  excerpt,
  kindPattern,
  type Place,
  pidOrNone,
  queueName,
  queueOrGroup,
  refuse,
  textAtMost,
  wholeNumber,
} from '@taskmaster/server/requests';
import { pidMessage, taskInfo } from '../reply/build-reply.ts';
import { queuePattern } from './parse-settings.ts';
import { parseHeaderFilter } from './parse-topics.ts';

/** The part of the service about bulk runs. */
export const bulkHandlers = ({
  bulkRuns: of,
}: {
  readonly bulkRuns: BulkOperations;
}): Pick<TaskHandlers, 'startBulkRun' | 'listBulkRuns' | 'cancelBulkRun'> => ({
  async startBulkRun(request, caller) {
    const command = parseBulk(request);
    const { group } = command.queues;
    // As the update that does the same with one task.
    if (command.spec.action === BulkAction.BULK_ACTION_MOVE) caller.access.require('enqueue', group);
    if (request.preview) {
      caller.access.require('read', group);
      const { samples, next, ...counts } = await of.preview(command, placeIn(request));
      const preview = {
        ...counts,
        samples: samples.map((view) => taskInfo(view, false)),
        next: next && placeMessage(next),
      };
      return { run: undefined, started: false, preview };
    }
    if (request.previewFrom !== undefined) refuse('INVALID_ARGUMENT', PREVIEW_FROM, 'is for a preview');
    const id = runId(request.id);
    const { record, started } = await of.start({ ...command, id, by: callerName(caller) });
    return { run: record.run, started, preview: undefined };
  },
  async listBulkRuns({ queue, id }) {
    const { group, name } = queueOrGroup(queue, ONE_OR_GROUP);
    const runs = (await of.list(group)).filter(
      ({ run, queues }) => (id === '' || run.id === id) && (name === '' || namePattern(queues.name)(name)),
    );
    return { runs: runs.map(({ run }) => run) };
  },
  async cancelBulkRun({ queue, id }) {
    const { record, cancelled } = await of.cancel(queueOrGroup(queue, ONE_OR_GROUP).group, runId(id));
    return { run: record?.run, cancelled };
  },
});

/** What the audit log says of the end of a run. */
export const endOfBulkRun = (run: EndedBulkRun): AuditEvent => ({
  kind: 'management',
  action: 'BulkRunEnded',
  target: run.queues,
  result: 'ok',
  details: {
    run: run.id,
    bulk: bulkName(run.spec),
    startedBy: run.startedBy,
    state: stateName(run.state),
    lookedAt: run.lookedAt,
    changed: run.changed,
    skipped: JSON.stringify(Object.fromEntries(run.skipped.map(({ reason, tasks }) => [reason, tasks]))),
    ...(run.problem !== '' && { problem: run.problem }),
  },
});

const stateName = (state: BulkRunState): string =>
  Object.entries(BulkRunState).find(([, known]) => known === state)?.[0] ?? 'unknown';

const ONE_OR_GROUP = { field: 'queue', whole: 'as group# or empty' } as const;

function runId(id: string): string {
  const place = { field: 'id' };
  if (id === '') refuse('INVALID_ARGUMENT', place, `is empty: 1 to ${limits.bulkRunIdBytes} bytes`);
  return textAtMost(id, place, limits.bulkRunIdBytes);
}

const PREVIEW_FROM = { field: 'preview_from' };

/** Where a preview goes on. Undefined: at the first task. */
function placeIn({ previewFrom }: StartBulkRunRequest): BulkPlace | undefined {
  if (previewFrom === undefined) return undefined;
  const queueId = wholeNumber(previewFrom.queueId, { field: 'preview_from.queue_id' }, 0, Number.MAX_SAFE_INTEGER);
  const after = pidOrNone(previewFrom.afterPid, { field: 'preview_from.after_pid' }) ?? '';
  return { queueId: queueId as QueueId, after: after as Pid };
}

const placeMessage = ({ queueId, after }: BulkPlace): BulkPlaceMessage => ({ queueId, afterPid: pidMessage(after) });

function parseBulk({ queues, spec: given, preview, allTasks }: StartBulkRunRequest): BulkCommand {
  const pattern = queuePattern(queues);
  if (given === undefined) return refuse('EMPTY_REQUEST', { field: 'spec' }, 'is not set: it says what the run does');
  const action = actionOf(given.action);
  const filter = given.filter && parseFilter(given.filter);
  if (!preview && !allTasks && /^\*+$/.test(pattern.name) && !isFiltering(filter)) {
    refuse(
      'INVALID_ARGUMENT',
      { field: 'queues' },
      'are all queues of the group, and there is no filter: set all_tasks',
    );
  }
  const spec: BulkSpec = {
    action,
    filter,
    target: targetOf(given, pattern),
    cancelReason: textAtMost(given.cancelReason, at('cancel_reason'), limits.cancelReasonBytes),
    delayMs: duration(given.delayMs, at('delay_ms'), 0, limits.delayMs),
    runAtUnixMs: wholeNumber(given.runAtUnixMs, at('run_at_unix_ms'), 0, limits.runAtUnixMs),
    rate: wholeNumber(given.rate, at('rate'), 0, limits.bulkRate),
    maxTasks: wholeNumber(given.maxTasks, at('max_tasks'), 0, Number.MAX_SAFE_INTEGER),
  };
  const { BULK_ACTION_CANCEL, BULK_ACTION_RESCHEDULE } = BulkAction;
  if (action !== BULK_ACTION_CANCEL && spec.cancelReason !== '') refuse('INVALID_ARGUMENT', at('cancel_reason'), ONLY);
  if (action !== BULK_ACTION_RESCHEDULE) {
    if (spec.delayMs !== 0) refuse('INVALID_ARGUMENT', at('delay_ms'), ONLY);
    if (spec.runAtUnixMs !== 0) refuse('INVALID_ARGUMENT', at('run_at_unix_ms'), ONLY);
  } else if ((spec.delayMs === 0) === (spec.runAtUnixMs === 0)) {
    refuse('INVALID_ARGUMENT', at('delay_ms'), 'or run_at_unix_ms is given: one of them, and not both');
  }
  return { queues: pattern, spec };
}

const at = (field: string): Place => ({ field: `spec.${field}` });
const ONLY = 'is for another action';

function actionOf(action: BulkAction): BulkAction {
  if (bulkActions.has(action)) return action;
  return refuse('INVALID_ARGUMENT', at('action'), `is ${action}: no known action`, { value: action });
}

function targetOf({ action, target }: BulkSpec, { group }: QueueName): string {
  if (action !== BulkAction.BULK_ACTION_MOVE) {
    if (target !== '') refuse('INVALID_ARGUMENT', at('target'), ONLY);
    return '';
  }
  const queue = queueName(target, at('target'));
  if (queue.group === group) return formatQueueName(queue);
  const metadata = { group: queue.group, otherGroup: group };
  return refuse(
    'MIXED_GROUPS',
    at('target'),
    `is ${excerpt(target)}: the queues are of the group ${excerpt(group)}`,
    metadata,
  );
}

function parseFilter({ tasks, headers, ...given }: BulkFilter): BulkFilter {
  const place = (field: string): Place => at(`filter.${field}`);
  if (!bulkTasks.has(tasks))
    refuse('INVALID_ARGUMENT', place('tasks'), `is ${tasks}: no known state`, { value: tasks });
  parseHeaderFilter(headers, 'spec.filter.headers.all');
  const filter = {
    tasks,
    minAgeMs: duration(given.minAgeMs, place('min_age_ms'), 0, limits.bulkAgeMs),
    maxAgeMs: duration(given.maxAgeMs, place('max_age_ms'), 0, limits.bulkAgeMs),
    errorContains: textAtMost(given.errorContains, place('error_contains'), limits.bulkTextBytes),
    headers: headers?.all.length ? headers : undefined,
    keyPrefix: textAtMost(given.keyPrefix, place('key_prefix'), limits.bulkTextBytes),
    kind: given.kind && kindPattern(given.kind, place('kind')),
  };
  if (filter.maxAgeMs !== 0 && filter.maxAgeMs < filter.minAgeMs) {
    refuse('INVALID_ARGUMENT', place('min_age_ms'), 'is larger than max_age_ms, so no task could match');
  }
  return filter;
}
