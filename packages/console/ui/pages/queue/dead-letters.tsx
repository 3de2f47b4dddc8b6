import { BulkAction, Dequeue, parseQueueName, type TaskInfo } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { call, make } from '../../data/rpc.ts';
import { Action } from '../../parts/action.tsx';
import { BulkButton } from '../../parts/bulk-action.tsx';
import { Name, Text, visible, When } from '../../parts/text.tsx';
import { type ErrorGroup, groupByError } from '../../show/error-groups.ts';
import { formatCount, formatMany } from '../../show/format.ts';
import { hashOf } from '../../show/place.ts';
import { TaskLink } from './tasks.tsx';

/** Tasks of a group that are listed. */
const LISTED = 20;

/** The dead letters of a queue, by what they died of. `queue`: their queue; `from`: the one that is looked at. */
export function DeadLetters(props: {
  readonly queue: string;
  readonly from: string;
  readonly total: number;
  readonly tasks: readonly TaskInfo[];
}): VNode {
  const { queue, from, total } = props;
  const own = queue === from ? props.tasks : props.tasks.filter((task) => task.deadLetterFrom === from);
  const others = props.tasks.length - own.length;
  const groups = groupByError(own);
  if (total === 0) return <div class="empty">No task has died.</div>;
  return (
    <>
      <div class="head">
        <p class="quiet">
          {formatMany(total, 'task')} in{' '}
          {queue === from ? (
            'this queue'
          ) : (
            <a href={hashOf('queue', [queue], { tab: 'dead' })}>
              <Name of={queue} />
            </a>
          )}
          {props.tasks.length < total ? `; the first ${formatCount(props.tasks.length)} are grouped` : ''}
          {others > 0 ? `; ${formatCount(others)} of them came from other queues and are not shown` : ''}
        </p>
        <div class="actions">
          <BulkButton queue={queue} action={BulkAction.BULK_ACTION_RETRY} label="Retry by filter…" />
          <BulkButton queue={queue} action={BulkAction.BULK_ACTION_DELETE} label="Drop by filter…" />
        </div>
      </div>
      <ul class="groups">
        {groups.map((group) => (
          <Group key={group.title} of={group} queue={queue} />
        ))}
      </ul>
    </>
  );
}

function Group({ of, queue }: { readonly of: ErrorGroup; readonly queue: string }): VNode {
  const [isOpen, setOpen] = useState(false);
  const { tasks, title, common, workers } = of;
  const details = tasks.at(-1)?.failures.at(-1)?.error?.details ?? '';
  return (
    <li>
      <div class="group-head">
        <button type="button" class="plain" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <b class="many">{formatCount(tasks.length)}</b>
          <span class="error">
            <Text of={title} most={300} />
          </span>
        </button>
        <span class="quiet small">
          last <When at={of.lastMs} />, first <When at={of.firstMs} />
          {workers.length === 0
            ? ''
            : `; ${workers.length === 1 ? 'worker' : 'workers'} ${visible(workers.slice(0, 3).join(', '))}`}
          {workers.length > 3 ? ` and ${workers.length - 3} more` : ''}
        </span>
        <span class="actions">
          {common === '' ? (
            <Named of={tasks} queue={queue} />
          ) : (
            <>
              <BulkButton queue={queue} action={BulkAction.BULK_ACTION_RETRY} filter={{ errorContains: common }} />
              <BulkButton queue={queue} action={BulkAction.BULK_ACTION_DELETE} filter={{ errorContains: common }} />
            </>
          )}
        </span>
      </div>
      {isOpen ? (
        <div class="group-body">
          {details === '' ? undefined : (
            <pre class="stack">
              <Text of={details} />
            </pre>
          )}
          <ul class="pids">
            {tasks.slice(0, LISTED).map((task) => (
              <li key={String(task.pid)}>
                <TaskLink of={task} />
              </li>
            ))}
            {tasks.length > LISTED ? <li class="quiet">and {formatCount(tasks.length - LISTED)} more</li> : undefined}
          </ul>
        </div>
      ) : undefined}
    </li>
  );
}

/** No filter finds tasks without an error, so they are named one by one. An update is atomic. */
function Named({ of, queue }: { readonly of: readonly TaskInfo[]; readonly queue: string }): VNode {
  const { group } = parseQueueName(queue);
  const many = formatMany(of.length, 'task');
  const update = (requeue: boolean) =>
    call('UpdateTasks', { dequeue: of.map(({ pid }) => make(Dequeue, { queue, pid, requeue })) });
  return (
    <>
      <Action
        label="Retry…"
        right="lease"
        group={group}
        title={`Retry ${many} of ${visible(queue)}`}
        confirm={`Retry ${many}`}
        run={async () => {
          await update(true);
          return `Put back ${many}`;
        }}
      >
        <p>They go back into the queues that they came from, as waiting tasks without attempts.</p>
      </Action>
      <Action
        label="Drop…"
        right="lease"
        group={group}
        isDangerous
        title={`Drop ${many} of ${visible(queue)}`}
        confirm={`Drop ${many}`}
        run={async () => {
          await update(false);
          return `Dropped ${many}`;
        }}
      >
        <p>They are removed for ever, with their payloads. This cannot be undone.</p>
      </Action>
    </>
  );
}
