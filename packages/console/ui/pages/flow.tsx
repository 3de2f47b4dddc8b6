import {
  ChildFailure,
  childRows,
  type FlowAround,
  flowAround,
  type TaskInFlow,
  type TaskSignal,
  TaskState,
} from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { usePoll } from '../data/poll.ts';
import { setQuery } from '../data/route.ts';
import { call } from '../data/rpc.ts';
import { Badge, Pending } from '../parts/bits.tsx';
import { Table } from '../parts/table.tsx';
import { Name, Text } from '../parts/text.tsx';
import { bytesOfPid, pidText } from '../show/bytes.ts';
import { formatCount } from '../show/format.ts';
import type { PageProps } from '../show/place.ts';
import { hashOf } from '../show/place.ts';
import { ErrorText, waitsFor } from './queue/tasks.tsx';

export function FlowPage({ place }: PageProps): VNode {
  const queue = place.query.get('queue') ?? '';
  const text = place.query.get('pid') ?? '';
  const key = place.query.get('key') ?? '';
  const isAsked = queue !== '' && (text !== '' || key !== '');
  const { data, error } = usePoll(
    `flow ${queue} ${text} ${key}`,
    async (signal): Promise<FlowAround | undefined> => {
      if (!isAsked) return undefined;
      const pid = (key === '' ? bytesOfPid(text) : undefined) ?? new Uint8Array(0);
      return flowAround(
        async (name, includeChildren) => {
          const named = name.key === '' ? { pids: [name.pid] } : { keys: [name.key] };
          const request = { queue: name.queue, ...named, includeSignals: true, includeChildren };
          return (await call('GetTasks', request, signal)).tasks[0];
        },
        { queue, pid, key },
      );
    },
    3_000,
  );
  return (
    <>
      <div class="head">
        <h1>Flows</h1>
        {/* Another place has other values in the fields. */}
        <form
          key={JSON.stringify([queue, text, key])}
          class="inline"
          onSubmit={(event) => {
            event.preventDefault();
            const form = new FormData(event.currentTarget);
            const value = (name: string): string => String(form.get(name) ?? '');
            setQuery({ queue: value('queue'), pid: value('pid'), key: value('key') });
          }}
        >
          <input
            data-search
            name="queue"
            aria-label="Queue"
            placeholder="Queue"
            defaultValue={queue}
            spellcheck={false}
          />
          <input name="pid" aria-label="PID" placeholder="PID" defaultValue={text} spellcheck={false} />
          <input name="key" aria-label="Key" placeholder="or key" defaultValue={key} spellcheck={false} />
          <button type="submit" class="primary">
            Show
          </button>
        </form>
      </div>
      {!isAsked ? (
        <div class="empty">
          <h2>The flow of a task</h2>
          <p>Name a queue, and a PID or a key: the page shows what the task has waited for, and what waits for it.</p>
        </div>
      ) : data === undefined ? (
        <Pending error={error} />
      ) : (
        <Tree of={data} />
      )}
    </>
  );
}

interface Row {
  readonly id: string;
  readonly depth: number;
  readonly isAsked: boolean;
  readonly task?: TaskInFlow;
  readonly ended?: TaskSignal;
}

/** Tasks that have ended, those that it waits for, the task itself, and those that wait for it. */
function rowsOf({ tasks, unfinished }: FlowAround): Row[] {
  const ended = tasks[0]?.task.signals.filter(({ queue }) => queue !== '') ?? [];
  const { before, depth: own } = childRows(
    unfinished.map((one) => one.before),
    ended.length > 0,
  );
  const rows: Row[] = ended.map((one, at) => ({ id: `ended ${at}`, depth: own - 1, isAsked: false, ended: one }));
  for (const { at, depth } of before) {
    const task = unfinished[at];
    if (task !== undefined) rows.push({ id: `child ${at}`, depth, isAsked: false, task });
  }
  const after = Map.groupBy(tasks.keys(), (at) => tasks[at]?.before);
  const left = [{ at: 0, depth: own }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { at, depth } = next;
    const task = tasks[at];
    if (task === undefined) continue;
    rows.push({ id: `task ${at}`, depth, isAsked: at === 0, task });
    left.push(...(after.get(at) ?? []).toReversed().map((child) => ({ at: child, depth: depth + 1 })));
  }
  return rows;
}

const onFailure: Readonly<Record<number, string>> = {
  [ChildFailure.CHILD_FAILURE_FAIL]: 'fails',
  [ChildFailure.CHILD_FAILURE_CONTINUE]: 'goes on',
  [ChildFailure.CHILD_FAILURE_RETRY]: 'waits for the retry',
};

function Tree({ of }: { readonly of: FlowAround }): VNode {
  const rows = rowsOf(of);
  const dropped = of.tasks[0]?.task.droppedSignals ?? 0;
  return (
    <>
      <Table
        label="Tasks of the flow"
        rows={rows}
        keyOf={({ id }) => id}
        rowClass={({ isAsked }) => (isAsked ? 'chosen' : '')}
        empty={<p>The queue has no such task.</p>}
        columns={[
          { key: 'task', title: 'Task', cell: (row) => <FlowTask of={row} /> },
          { key: 'queue', title: 'Queue', from: 'tablet', cell: (row) => <Name of={queueOf(row)} /> },
          { key: 'state', title: 'State', cell: (row) => <FlowState of={row} /> },
          { key: 'waits', title: 'Waits for', from: 'tablet', cell: ({ task }) => (task ? waitsFor(task.task) : '') },
          {
            key: 'fails',
            title: 'If that fails',
            about: 'What happens to it if the task above it is not completed',
            from: 'desktop',
            cell: ({ task }) => onFailure[task?.asParent?.onFailure ?? -1] ?? '',
          },
          {
            key: 'error',
            title: 'Last error',
            from: 'desktop',
            cell: ({ task }) => <ErrorText of={task?.task.failures.at(-1)} />,
          },
        ]}
      />
      <p class="quiet small">
        {of.isCut ? `More than ${formatCount(of.tasks.length)} tasks wait for it; the others are left out. ` : ''}
        {of.isUnfinishedCut ? 'There may be more tasks for which it waits. ' : ''}
        {dropped > 0 ? `The ends of ${formatCount(dropped)} more tasks did not fit into what it keeps. ` : ''}
        First come tasks that have ended, if the task collects them, and those for which it waits; then the task, and
        those that wait for it.
      </p>
    </>
  );
}

const queueOf = ({ task, ended }: Row): string => task?.task.queue ?? ended?.queue ?? '';

function FlowTask({ of: row }: { readonly of: Row }): VNode {
  const { task, ended, depth } = row;
  const indent = depth === 0 ? undefined : <span class="indent">{`${'\u00a0\u00a0'.repeat(depth - 1)}└ `}</span>;
  const pid = task?.task.pid ?? ended?.pid ?? new Uint8Array(0);
  const key = pid.length === 0 ? (task?.task.key ?? '') : '';
  const name = key === '' ? pidText(pid) : `key ${key}`;
  return (
    <span class="cut">
      {indent}
      <a href={hashOf('task', [queueOf(row), key === '' ? pidText(pid) : ''], { key })}>
        <Text of={name} most={100} />
      </a>
    </span>
  );
}

function FlowState({ of: { task, ended } }: { readonly of: Row }): VNode {
  if (ended !== undefined) {
    return ended.completed ? <Badge tone="good">completed</Badge> : <Badge tone="bad">not completed</Badge>;
  }
  if (task?.task.waits !== undefined) return <Badge tone="info">waiting</Badge>;
  switch (task?.task.state) {
    case TaskState.TASK_STATE_AVAILABLE:
      return <Badge tone="info">available</Badge>;
    case TaskState.TASK_STATE_LEASED:
      return <Badge tone="good">leased</Badge>;
    case TaskState.TASK_STATE_DELAYED:
      return <Badge tone="info">delayed</Badge>;
    default:
      return <Badge tone="quiet">not found</Badge>;
  }
}
