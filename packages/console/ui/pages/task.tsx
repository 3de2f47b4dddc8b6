import {
  AwaitedTask,
  Dequeue,
  type EndedTask,
  Enqueue,
  EnqueueMode,
  parseQueueName,
  Release,
  type TaskFailure,
  type TaskInfo,
  TaskOutcome,
  type TaskParent,
  TaskState,
} from '@taskmaster/proto/messages';
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { usePoll } from '../data/poll.ts';
import { call, make } from '../data/rpc.ts';
import { serverNow } from '../data/session.ts';
import { Action } from '../parts/action.tsx';
import { Badge, Facts, Pending, Section } from '../parts/bits.tsx';
import { Lines, Payload } from '../parts/payload.tsx';
import { Name, Text, visible, When } from '../parts/text.tsx';
import { bytesOfHex, bytesOfPid, hexText, pidText, prettyJson, utf8Text } from '../show/bytes.ts';
import { formatBytes, formatDuration, formatMany } from '../show/format.ts';
import type { PageProps } from '../show/place.ts';
import { hashOf } from '../show/place.ts';
import { waitsFor } from './queue/tasks.tsx';

interface TaskData {
  readonly task: TaskInfo;
  /** How it has ended, if it is not in its queue. */
  readonly ended: EndedTask | undefined;
}

async function load(queue: string, pid: Uint8Array, key: string, signal: AbortSignal): Promise<TaskData> {
  const named = key === '' ? { pids: [pid] } : { keys: [key] };
  const reply = await call(
    'GetTasks',
    { queue, ...named, includeData: true, includeSignals: true, includeChildren: true },
    signal,
  );
  const task = reply.tasks[0];
  if (task === undefined) throw new Error('the reply has no task');
  if (task.state !== TaskState.TASK_STATE_NOT_FOUND || key !== '') return { task, ended: undefined };
  const { ended } = await call('WaitForTasks', { tasks: [make(AwaitedTask, { queue, pid })] }, signal);
  return { task: { ...task, pid }, ended: ended[0] };
}

export function TaskPage({ place }: PageProps): VNode {
  const queue = place.names[0] ?? '';
  const text = place.names[1] ?? '';
  const key = place.query.get('key') ?? '';
  const pid = bytesOfPid(text);
  const { data, error } = usePoll(`task ${queue} ${text} ${key}`, (signal) =>
    load(queue, pid ?? new Uint8Array(0), key, signal),
  );
  return (
    <>
      <p class="crumbs">
        <a href="#/queues">Queues</a> /{' '}
        <a href={hashOf('queue', [queue])}>
          <Name of={queue} />
        </a>
      </p>
      {data === undefined ? (
        <>
          <h1>
            <Text of={key === '' ? text : key} />
          </h1>
          <Pending error={error} />
        </>
      ) : (
        <Content of={data} queue={queue} />
      )}
    </>
  );
}

function Content({ of: { task, ended }, queue }: { readonly of: TaskData; readonly queue: string }): VNode {
  const isThere = task.state !== TaskState.TASK_STATE_NOT_FOUND;
  return (
    <>
      <div class="head title">
        <div>
          <h1>
            <span class="name whole">
              <Text of={pidText(task.pid)} />
            </span>
          </h1>
          <StateBadge of={task} ended={ended} />
        </div>
        {isThere ? (
          <div class="actions">
            <TaskActions of={task} queue={queue} />
          </div>
        ) : undefined}
      </div>
      {isThere ? <Known of={task} queue={queue} /> : <Ended of={ended} />}
    </>
  );
}

const endings: Readonly<Record<number, readonly ['good' | 'bad' | 'warn' | 'quiet', string]>> = {
  [TaskOutcome.TASK_OUTCOME_COMPLETED]: ['good', 'completed'],
  [TaskOutcome.TASK_OUTCOME_DEAD_LETTERED]: ['bad', 'died: it is in its dead-letter queue'],
  [TaskOutcome.TASK_OUTCOME_REMOVED]: ['quiet', 'removed or moved'],
  [TaskOutcome.TASK_OUTCOME_CANCELLED]: ['warn', 'cancelled'],
};

function StateBadge({ of, ended }: { readonly of: TaskInfo; readonly ended: EndedTask | undefined }): VNode {
  if (of.cancelReason !== undefined) return <Badge tone="warn">cancelled, its attempt goes on</Badge>;
  switch (of.state) {
    case TaskState.TASK_STATE_AVAILABLE:
      return of.deadLetterFrom === '' ? <Badge tone="info">available</Badge> : <Badge tone="bad">dead letter</Badge>;
    case TaskState.TASK_STATE_LEASED:
      return <Badge tone="good">leased</Badge>;
    case TaskState.TASK_STATE_DELAYED:
      return <Badge tone="info">{of.waits === undefined ? 'delayed' : `waits for ${waitsFor(of)}`}</Badge>;
    default: {
      const [tone, text] = endings[ended?.outcome ?? 0] ?? ['quiet', 'not in its queue'];
      return <Badge tone={tone}>{text}</Badge>;
    }
  }
}

function Ended({ of }: { readonly of: EndedTask | undefined }): VNode {
  if (of === undefined || endings[of.outcome] === undefined) {
    return (
      <p class="empty">
        The queue has no such task. It has ended and left no result, or it never existed. The settings of the queue say
        for how long results are kept.
      </p>
    );
  }
  return (
    <>
      <Facts
        of={[
          ['Ended', of.endedUnixMs === 0 ? undefined : <When at={of.endedUnixMs} />],
          ['Attempts', of.attempts],
          ['Error', of.error && <Text of={of.error.message} />],
          ['Cancelled because', of.cancelReason === '' ? undefined : <Text of={of.cancelReason} />],
        ]}
      />
      {of.result === undefined ? undefined : (
        <Section title="Result">
          <Payload of={of.result} label="Result" />
        </Section>
      )}
    </>
  );
}

const queueLink = (queue: string): VNode => (
  <a href={hashOf('queue', [queue])}>
    <Name of={queue} />
  </a>
);

function Known({ of, queue }: { readonly of: TaskInfo; readonly queue: string }): VNode {
  const now = serverNow();
  const isLeased = of.state === TaskState.TASK_STATE_LEASED;
  const headers = Object.entries(of.headers);
  const text = (value: string | undefined): VNode | undefined => (value ? <Text of={value} /> : undefined);
  return (
    <>
      <Facts
        of={[
          ['Came from', of.deadLetterFrom === '' ? undefined : queueLink(of.deadLetterFrom)],
          ['Enqueued', <When at={of.enqueuedUnixMs} key="enqueued" />],
          ['Attempts', attemptsText(of)],
          ['Key', text(of.key)],
          ['Kind', text(of.kind)],
          ['Limit key', text(of.limitKey)],
          ['Order key', text(of.orderKey)],
          ['Available', !isLeased && of.hiddenUntilUnixMs > 0 ? <When at={of.hiddenUntilUnixMs} /> : undefined],
          ['Worker', isLeased ? text(of.workerLabel || of.workerAddress) : undefined],
          ['Worker address', isLeased ? text(of.workerAddress) : undefined],
          ['Leased', isLeased ? <When at={of.leasedUnixMs} /> : undefined],
          [
            'Lease ends',
            isLeased
              ? of.hiddenUntilUnixMs > now
                ? `in ${formatDuration(of.hiddenUntilUnixMs - now)}`
                : 'now'
              : undefined,
          ],
          [
            'Progress',
            of.progress === '' ? undefined : (
              <>
                <Text of={of.progress} />{' '}
                <span class="quiet">
                  <When at={of.progressUnixMs} />
                </span>
              </>
            ),
          ],
          [
            'Cancelled because',
            of.cancelReason === undefined ? undefined : <Text of={of.cancelReason || 'no reason given'} />,
          ],
          ['An attempt may take', of.timeLimitMs === 0 ? undefined : formatDuration(of.timeLimitMs)],
          ['Must start by', of.startByUnixMs === undefined ? undefined : <When at={of.startByUnixMs} />],
          ['Checkpoint', of.checkpointBytes === 0 ? undefined : formatBytes(of.checkpointBytes)],
          ['Retries', retryText(of)],
        ]}
      />
      <Section title="Payload">
        <Payload of={of.data} label="Payload" />
      </Section>
      {headers.length === 0 ? undefined : (
        <Section title="Headers">
          <Facts of={headers.map(([name, value]) => [name, <Text of={value} key={name} />] as const)} />
        </Section>
      )}
      {of.failures.length === 0 ? undefined : (
        <Section title="Failures">
          <ol class="failures">
            {of.failures.toReversed().map((failure) => (
              <Failure key={`${failure.attempt} ${failure.failedUnixMs}`} of={failure} />
            ))}
          </ol>
        </Section>
      )}
      <Connections of={of} queue={queue} />
    </>
  );
}

function attemptsText({ attempts, interruptions }: TaskInfo): string {
  return interruptions === 0 ? String(attempts) : `${attempts}, and ${formatMany(interruptions, 'interruption')}`;
}

function retryText({ retry }: TaskInfo): string | undefined {
  if (retry === undefined) return undefined;
  const attempts = retry.maxAttempts === 0 ? 'without limit' : `up to ${formatMany(retry.maxAttempts, 'attempt')}`;
  return `${attempts}, backoff from ${formatDuration(retry.backoffInitialMs)}`;
}

function Failure({ of }: { readonly of: TaskFailure }): VNode {
  const { attempt, failedUnixMs, workerLabel, error } = of;
  return (
    <li>
      <p>
        <strong>{error === undefined ? 'The lease expired' : <Text of={error.message} />}</strong>
      </p>
      <p class="quiet small">
        {attempt === 0 ? 'not started in time' : `attempt ${attempt}`}, <When at={failedUnixMs} />
        {workerLabel === '' ? '' : ', by '}
        <Text of={workerLabel} most={120} />
      </p>
      {error === undefined || error.details === '' ? undefined : (
        <pre class="stack">
          <Lines of={error.details} />
        </pre>
      )}
    </li>
  );
}

function Connections({ of, queue }: { readonly of: TaskInfo; readonly queue: string }): VNode | null {
  const { parents, children, signals } = of;
  if (parents.length + children.length + signals.length === 0) return null;
  const link = (one: TaskParent): VNode => (
    <li key={`${one.queue} ${one.key} ${one.pid}`}>
      <a href={hashOf('task', [one.queue, pidText(one.pid)], { key: one.key })}>
        <Name of={one.queue} /> <Text of={one.key === '' ? pidText(one.pid) : `key ${one.key}`} most={120} />
      </a>
    </li>
  );
  const list = (title: string, items: readonly ComponentChildren[]): VNode | undefined =>
    items.length === 0 ? undefined : (
      <>
        <h3>{title}</h3>
        <ul>{items}</ul>
      </>
    );
  return (
    <Section title="Flow" side={<a href={hashOf('flow', [], { queue, pid: pidText(of.pid) })}>Whole flow</a>}>
      {list('Waits for', children.map(link))}
      {list('Wait for it', parents.map(link))}
      {list(
        'Signals that came',
        signals.map((signal, at) => (
          <li key={`${at} ${signal.id}`}>
            {signal.queue === '' ? (
              <Text of={signal.id || 'signal'} />
            ) : (
              <>
                <Name of={signal.queue} /> <Text of={pidText(signal.pid)} most={120} />{' '}
                {signal.completed ? 'completed' : <span class="warn">not completed</span>}
              </>
            )}
            {signal.data.length === 0 ? undefined : <span class="quiet"> {formatBytes(signal.data.length)}</span>}
          </li>
        )),
      )}
    </Section>
  );
}

const DELAYS: readonly (readonly [ms: number, text: string])[] = [
  [0, 'now'],
  [60_000, 'in a minute'],
  [15 * 60_000, 'in 15 minutes'],
  [3_600_000, 'in an hour'],
  [24 * 3_600_000, 'in a day'],
];

function TaskActions({ of, queue }: { readonly of: TaskInfo; readonly queue: string }): VNode {
  const { group } = parseQueueName(queue);
  const [reason, setReason] = useState('');
  const [delayMs, setDelayMs] = useState(0);
  const name = visible(pidText(of.pid));
  const isDead = of.deadLetterFrom !== '';
  const isLeased = of.state === TaskState.TASK_STATE_LEASED;
  const waits = of.waits === undefined ? '' : waitsFor(of);
  const leased = isLeased ? 'A worker has leased it. Wait for the end of its attempt, or cancel it.' : undefined;
  return (
    <>
      {isDead ? (
        <>
          <Action
            label="Retry…"
            primary
            right="lease"
            group={group}
            title={`Retry ${name}`}
            confirm="Retry"
            impossible={leased}
            run={async () => {
              await call('UpdateTasks', { dequeue: [make(Dequeue, { queue, pid: of.pid, requeue: true })] });
              return `${name} is back in ${visible(of.deadLetterFrom)}`;
            }}
          >
            <p>
              It goes back into <Name of={of.deadLetterFrom} />, as a waiting task without attempts. It keeps its
              payload and its failures.
            </p>
          </Action>
          <EditAndRetry of={of} queue={queue} impossible={leased} />
        </>
      ) : undefined}
      <Action
        label="Reschedule…"
        right="lease"
        group={group}
        title={`Reschedule ${name}`}
        confirm={delayMs === 0 && waits === '' ? 'Run it now' : 'Reschedule'}
        impossible={leased}
        run={async () => {
          const given = { queue, pid: of.pid, waiting: true, ...(delayMs > 0 && { delayMs }) };
          await call('UpdateTasks', { release: [make(Release, given)] });
          const available = `${name} is available ${delayMs === 0 ? 'now' : `in ${formatDuration(delayMs)}`}`;
          return waits === '' ? available : `${available} at the earliest: it waits for ${waits}`;
        }}
      >
        <p>
          {waits === ''
            ? 'Workers may lease it from then on.'
            : `It goes on waiting for ${waits}, and is not leased before both.`}{' '}
          It keeps its attempts.
        </p>
        <label for="delay">When</label>
        <select id="delay" onChange={(event) => setDelayMs(Number(event.currentTarget.value))}>
          {DELAYS.map(([ms, text]) => (
            <option key={ms} value={ms} selected={ms === delayMs}>
              {text}
            </option>
          ))}
        </select>
      </Action>
      <Action
        label={isDead ? 'Drop…' : 'Cancel…'}
        right="lease"
        group={group}
        isDangerous
        title={`${isDead ? 'Drop' : 'Cancel'} ${name}`}
        confirm={isDead ? 'Drop the dead letter' : 'Cancel the task'}
        run={async () => {
          const given = isDead ? {} : { cancelReason: reason };
          await call('UpdateTasks', { dequeue: [make(Dequeue, { queue, pid: of.pid, ...given })] });
          return isDead ? `Dropped ${name}` : isLeased ? `Cancelled ${name}; its worker is told` : `Cancelled ${name}`;
        }}
      >
        <p>
          {isDead
            ? 'It is removed for ever, with its payload. This cannot be undone.'
            : isLeased
              ? 'Its worker is told. If the worker completes it all the same, it is completed; otherwise it is removed and does not run again.'
              : 'It is removed and does not run. This cannot be undone.'}
        </p>
        {isDead ? undefined : (
          <>
            <label for="cancel-reason">Why</label>
            <input
              id="cancel-reason"
              value={reason}
              maxLength={200}
              placeholder="told to its worker, and to those that wait for it"
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </>
        )}
      </Action>
    </>
  );
}

/** Replaces a dead letter by a new task with another payload, in the queue that it came from. Both happen, or neither. */
function EditAndRetry(props: {
  readonly of: TaskInfo;
  readonly queue: string;
  readonly impossible: string | undefined;
}): VNode {
  const { of, queue } = props;
  const original = utf8Text(of.data);
  const isText = original !== undefined;
  const [text, setText] = useState('');
  const data = isText ? new TextEncoder().encode(text) : bytesOfHex(text);
  const wasJson = isText && prettyJson(original) !== undefined;
  const problem =
    data === undefined
      ? 'These are no pairs of hexadecimal digits.'
      : wasJson && prettyJson(text) === undefined
        ? 'This is no JSON any more.'
        : '';
  const name = visible(pidText(of.pid));
  return (
    <Action
      label="Edit and retry…"
      right="lease"
      group={parseQueueName(queue).group}
      wide
      title={`Edit and retry ${name}`}
      confirm="Retry with this payload"
      isReady={data !== undefined}
      impossible={props.impossible}
      onOpen={() => setText(isText ? (prettyJson(original) ?? original) : hexText(of.data))}
      run={async () => {
        const { pid, key, headers, kind, limitKey, orderKey, retry, timeLimitMs } = of;
        // The policy that it had in its own queue is not told. That of the queue applies.
        const enqueue = make(Enqueue, {
          queue: of.deadLetterFrom,
          pid,
          key,
          data: data ?? of.data,
          headers: { ...headers },
          mode: EnqueueMode.ENQUEUE_MODE_FAIL,
          limitKey,
          timeLimitMs,
          ...(retry !== undefined && { retry: { ...retry, deadLetterQueue: '' } }),
          ...(kind !== undefined && { kind }),
          ...(orderKey !== '' && { links: { waitFor: undefined, parents: [], orderKey } }),
        });
        await call('UpdateTasks', { dequeue: [make(Dequeue, { queue, pid })], enqueue: [enqueue] });
        return `${name} is back in ${visible(of.deadLetterFrom)}, with its new payload`;
      }}
    >
      <p>
        The dead letter is removed, and a new task with this payload and its headers, key and kind is added to{' '}
        <Name of={of.deadLetterFrom} />. It has no failures and no attempts.
      </p>
      <label for="edited">{isText ? 'Payload' : 'Payload in hex'}</label>
      <textarea
        id="edited"
        rows={14}
        spellcheck={false}
        value={text}
        aria-invalid={problem !== ''}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {problem === '' ? undefined : (
        <p class="refused" role="alert">
          {problem}
        </p>
      )}
    </Action>
  );
}
