import { BulkAction, type QueueStats, type TaskInfo } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { serverNow } from '../../data/session.ts';
import { BulkButton } from '../../parts/bulk-action.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { Text, visible, When } from '../../parts/text.tsx';
import { pidText } from '../../show/bytes.ts';
import { formatCount, formatDuration, formatMany } from '../../show/format.ts';
import { hashOf } from '../../show/place.ts';
import { groupByWorker, workerName } from '../../show/workers.ts';

/** A link to a task. */
export function TaskLink({ of }: { readonly of: { readonly queue: string; readonly pid: Uint8Array } }): VNode {
  const pid = pidText(of.pid);
  return (
    <a class="cut" href={hashOf('task', [of.queue, pid])} title={visible(pid)}>
      <Text of={pid} most={120} />
    </a>
  );
}

const pid: Column<TaskInfo> = { key: 'pid', title: 'Task (PID)', cell: (task) => <TaskLink of={task} /> };
const attempts: Column<TaskInfo> = {
  key: 'attempts',
  title: 'Attempts',
  isNumber: true,
  cell: (task) => task.attempts,
};
const enqueued: Column<TaskInfo> = {
  key: 'enqueued',
  title: 'Enqueued',
  from: 'tablet',
  cell: ({ enqueuedUnixMs }) => <When at={enqueuedUnixMs} />,
};
const keyColumn: Column<TaskInfo> = {
  key: 'key',
  title: 'Key',
  from: 'desktop',
  cell: ({ key }) => (key === '' ? <span class="quiet">–</span> : <Text of={key} most={60} />),
};
const kindColumn: Column<TaskInfo> = {
  key: 'kind',
  title: 'Kind',
  from: 'desktop',
  cell: ({ kind }) => (kind === undefined ? <span class="quiet">–</span> : <Text of={kind} most={60} />),
};
const lastError: Column<TaskInfo> = {
  key: 'error',
  title: 'Last error',
  from: 'desktop',
  cell: ({ failures }) => <ErrorText of={failures.at(-1)} />,
};

export function ErrorText({ of }: { readonly of: TaskInfo['failures'][number] | undefined }): VNode {
  if (of === undefined) return <span class="quiet">–</span>;
  return of.error === undefined ? <span class="quiet">lease expired</span> : <Text of={of.error.message} most={160} />;
}

export function HeadTasks(props: {
  readonly of: readonly TaskInfo[];
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly onAfter: (pid: Uint8Array<ArrayBuffer>) => void;
}): VNode {
  const last = props.of.at(-1)?.pid;
  return (
    <>
      <Table
        label="Available tasks, in the order in which they are leased"
        rows={props.of}
        keyOf={(task) => pidText(task.pid)}
        columns={[pid, attempts, enqueued, keyColumn, kindColumn, lastError]}
        empty={<p>{props.isFirst ? 'No task is available.' : 'There are no more.'}</p>}
      />
      {props.isFirst && props.isLast ? undefined : (
        <div class="buttons start">
          <button type="button" disabled={props.isFirst} onClick={() => props.onAfter(new Uint8Array(0))}>
            First
          </button>
          <button type="button" disabled={props.isLast} onClick={() => last && props.onAfter(Uint8Array.from(last))}>
            Next
          </button>
        </div>
      )}
    </>
  );
}

export function LeasedTasks({ of, total }: { readonly of: readonly TaskInfo[]; readonly total: number }): VNode {
  const workers = groupByWorker(of);
  const now = serverNow();
  return (
    <>
      {workers.length === 0 ? undefined : (
        <p class="workers">
          <strong>{formatMany(workers.length, 'worker')}:</strong>{' '}
          {workers.slice(0, 12).map((worker) => (
            <span class="chip" key={workerName(worker)} title={visible(worker.addresses.join(', '))}>
              <Text of={workerName(worker)} most={48} /> <b>{formatCount(worker.tasks.length)}</b>
            </span>
          ))}
          {workers.length > 12 ? `and ${workers.length - 12} more` : ''}
        </p>
      )}
      <Table
        label="Leased tasks, those first whose leases end first"
        rows={of}
        keyOf={(task) => pidText(task.pid)}
        rowClass={({ cancelReason }) => (cancelReason === undefined ? '' : 't-warn')}
        columns={[
          pid,
          {
            key: 'worker',
            title: 'Worker',
            cell: ({ workerLabel, workerAddress }) => (
              <span class="cut" title={visible(`${workerLabel} ${workerAddress}`)}>
                <Text of={workerLabel === '' ? workerAddress : workerLabel} most={60} />
              </span>
            ),
          },
          {
            key: 'address',
            title: 'Address',
            from: 'desktop',
            cell: ({ workerAddress }) => <Text of={workerAddress} most={60} />,
          },
          { key: 'progress', title: 'Progress', from: 'tablet', cell: (task) => <Progress of={task} /> },
          {
            key: 'since',
            title: 'Leased',
            from: 'tablet',
            cell: ({ leasedUnixMs }) => <When at={leasedUnixMs} />,
          },
          {
            key: 'left',
            title: 'Time left',
            about: 'Until the lease ends, if the worker does not renew it',
            isNumber: true,
            cell: ({ hiddenUntilUnixMs }) =>
              hiddenUntilUnixMs > now ? formatDuration(hiddenUntilUnixMs - now) : <span class="warn">over</span>,
          },
          { ...attempts, title: 'Attempt', from: 'tablet' },
        ]}
        empty={<p>No task is leased: nobody works on it.</p>}
      />
      {total > of.length ? <p class="quiet small">and {formatCount(total - of.length)} more</p> : undefined}
    </>
  );
}

function Progress({ of }: { readonly of: TaskInfo }): VNode {
  if (of.cancelReason !== undefined) {
    return (
      <span class="warn">
        cancelled: <Text of={of.cancelReason} most={80} />
      </span>
    );
  }
  if (of.progress === '') return <span class="quiet">{of.begun ? '–' : 'not begun'}</span>;
  return (
    <span class="cut">
      <Text of={of.progress} most={80} />{' '}
      <span class="quiet">
        <When at={of.progressUnixMs} />
      </span>
    </span>
  );
}

const until: Column<TaskInfo> = {
  key: 'until',
  title: 'Available',
  cell: ({ hiddenUntilUnixMs }) => <When at={hiddenUntilUnixMs} />,
};

export function DelayedTasks(props: {
  readonly of: readonly TaskInfo[];
  readonly waiting: readonly TaskInfo[];
  readonly queue: string;
  readonly stats: QueueStats;
}): VNode {
  const timed = props.stats.delayed - props.stats.waiting;
  return (
    <>
      <div class="buttons start">
        <BulkButton
          queue={props.queue}
          action={BulkAction.BULK_ACTION_PROMOTE}
          impossible={timed <= 0 ? 'No task of it is delayed.' : undefined}
        />
      </div>
      <Table
        label="Delayed tasks, those first that are available first"
        rows={props.of}
        keyOf={(task) => pidText(task.pid)}
        columns={[pid, until, attempts, enqueued, keyColumn, lastError]}
        empty={<p>No task is delayed.</p>}
      />
      {timed > props.of.length ? <p class="quiet small">and {formatCount(timed - props.of.length)} more</p> : undefined}
      {props.waiting.length === 0 ? undefined : (
        <>
          <h3>Wait for others</h3>
          <Table
            label="Tasks that wait for signals or for their order"
            rows={props.waiting}
            keyOf={(task) => pidText(task.pid)}
            columns={[pid, { key: 'for', title: 'Waits for', cell: (task) => waitsFor(task) }, enqueued, keyColumn]}
          />
        </>
      )}
    </>
  );
}

/** What a task still waits for, beside its time. */
export function waitsFor({ waits }: Pick<TaskInfo, 'waits'>): string {
  if (waits === undefined) return '';
  const signals = waits.signals === 0 ? [] : [formatMany(waits.signals, 'signal')];
  return [...(waits.order ? ['its order'] : []), ...signals].join(', ');
}
