import {
  BulkAction,
  type BulkFilter,
  type BulkRun,
  BulkRunState,
  BulkTasks,
  parseQueueName,
} from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { type BulkChoice, type Preview, previewBulk, startBulk } from '../data/bulk.ts';
import { type CallError, callError } from '../data/rpc.ts';
import { pidText } from '../show/bytes.ts';
import { formatCount, formatMany } from '../show/format.ts';
import { Action, refusalText } from './action.tsx';
import { Text, visible } from './text.tsx';

interface Kind {
  readonly label: string;
  /** `Retry 12 tasks`. */
  readonly verb: string;
  readonly past: string;
  readonly about: string;
  readonly isDangerous: boolean;
  readonly tasks: BulkTasks;
}

const { BULK_TASKS_DEAD_LETTERS, BULK_TASKS_DELAYED, BULK_TASKS_UNSPECIFIED } = BulkTasks;

const kinds: Readonly<Record<number, Kind>> = {
  [BulkAction.BULK_ACTION_RETRY]: {
    label: 'Retry…',
    verb: 'Retry',
    past: 'Put back',
    about: 'They go back into the queues that they came from, as waiting tasks without attempts.',
    isDangerous: false,
    tasks: BULK_TASKS_DEAD_LETTERS,
  },
  [BulkAction.BULK_ACTION_DELETE]: {
    label: 'Drop…',
    verb: 'Drop',
    past: 'Dropped',
    about: 'They are removed for ever, with their payloads. This cannot be undone.',
    isDangerous: true,
    tasks: BULK_TASKS_UNSPECIFIED,
  },
  [BulkAction.BULK_ACTION_CANCEL]: {
    label: 'Cancel…',
    verb: 'Cancel',
    past: 'Cancelled',
    about: 'Those that wait are removed. Leased ones end with their attempts, and their workers are told.',
    isDangerous: true,
    tasks: BULK_TASKS_UNSPECIFIED,
  },
  [BulkAction.BULK_ACTION_PROMOTE]: {
    label: 'Run delayed now…',
    verb: 'Run now',
    past: 'Made available',
    about: 'They do not wait for their delay or backoff any more.',
    isDangerous: false,
    tasks: BULK_TASKS_DELAYED,
  },
};

/** How long the user may pause before the tasks are counted, in ms. */
const TYPING_MS = 350;
const MINUTE_MS = 60_000;

/** A button that does the same to all tasks of a queue that match a filter. Its dialog counts them first. */
export function BulkButton(props: {
  readonly queue: string;
  readonly action: BulkAction;
  readonly label?: string;
  /** What the filter begins with. */
  readonly filter?: Partial<BulkFilter>;
  readonly impossible?: string | undefined;
}): VNode | null {
  const kind = kinds[props.action];
  const [error, setError] = useState('');
  const [minutes, setMinutes] = useState('');
  const [keyPrefix, setKeyPrefix] = useState('');
  const [taskKind, setTaskKind] = useState('');
  const [preview, setPreview] = useState<Preview | CallError | undefined>(undefined);
  const [isOpen, setOpen] = useState(false);
  const choice: BulkChoice = {
    action: props.action,
    filter: {
      tasks: kind?.tasks ?? BULK_TASKS_UNSPECIFIED,
      errorContains: error,
      minAgeMs: Math.max(0, Math.round(Number(minutes) * MINUTE_MS)) || 0,
      keyPrefix,
      ...(taskKind !== '' && { kind: taskKind }),
    },
  };
  const key = JSON.stringify(choice);
  useEffect(() => {
    if (!isOpen) return undefined;
    setPreview(undefined);
    const controller = new AbortController();
    const timer = setTimeout(() => {
      previewBulk(props.queue, choice, controller.signal).then(setPreview, (thrown: unknown) => {
        if (!controller.signal.aborted) setPreview(callError(thrown));
      });
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [isOpen, key, props.queue]);
  if (kind === undefined) return null;

  const count = preview === undefined || preview instanceof Error ? undefined : preview;
  const what =
    count === undefined ? 'tasks' : `${count.isWhole ? '' : 'more than '}${formatMany(count.matched, 'task')}`;
  return (
    <Action
      label={props.label ?? kind.label}
      right="lease"
      group={parseQueueName(props.queue).group}
      title={`${kind.verb} ${what} of ${visible(props.queue)}`}
      confirm={count === undefined ? kind.verb : `${kind.verb} ${what}`}
      isDangerous={kind.isDangerous}
      isReady={(count?.matched ?? 0) > 0}
      impossible={props.impossible}
      onOpen={() => {
        setError(props.filter?.errorContains ?? '');
        setOpen(true);
      }}
      run={async () => {
        const run = await startBulk(props.queue, choice);
        setOpen(false);
        return outcomeOf(kind, run);
      }}
    >
      <p>{kind.about}</p>
      <div class="fields">
        <Field label="Error contains" value={error} onInput={setError} placeholder="any" />
        <Field
          label="In the queue for at least (minutes)"
          value={minutes}
          onInput={setMinutes}
          placeholder="0"
          isNumber
        />
        <Field label="Key begins with" value={keyPrefix} onInput={setKeyPrefix} placeholder="any" />
        <Field label="Kind" value={taskKind} onInput={setTaskKind} placeholder="any, * allowed" />
      </div>
      <PreviewText of={preview} queue={props.queue} />
    </Action>
  );
}

function Field(props: {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly placeholder: string;
  readonly isNumber?: boolean;
}): VNode {
  const id = useId();
  return (
    <div>
      <label for={id}>{props.label}</label>
      <input
        id={id}
        inputMode={props.isNumber ? 'decimal' : 'text'}
        value={props.value}
        maxLength={256}
        placeholder={props.placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </div>
  );
}

function PreviewText({ of, queue }: { readonly of: Preview | CallError | undefined; readonly queue: string }): VNode {
  if (of === undefined) return <p class="preview">Counting…</p>;
  if (of instanceof Error) {
    return (
      <p class="refused" role="alert">
        {refusalText(of)}
      </p>
    );
  }
  const { matched, leased, queues, isWhole, samples } = of;
  return (
    <div class="preview" role="status">
      <p>
        <strong>
          {isWhole ? '' : 'More than '}
          {formatMany(matched, 'task matches', 'tasks match')}
        </strong>
        {leased > 0 ? `; ${formatCount(leased)} of them are leased and stay as they are` : ''}.
        {queues > 1 ? ` The name has a *, so ${formatCount(queues)} queues match ${visible(queue)}.` : ''}
      </p>
      {samples.length === 0 ? undefined : (
        <p class="quiet small">
          The first:{' '}
          <Text
            of={samples
              .slice(0, 5)
              .map(({ pid }) => pidText(pid))
              .join(', ')}
            most={200}
          />
        </p>
      )}
    </div>
  );
}

function outcomeOf({ past }: Kind, run: BulkRun | undefined): string {
  if (run === undefined) return `${past} no tasks`;
  if (run.state === BulkRunState.BULK_RUN_STATE_FAILED) return `The run failed: ${visible(run.problem)}`;
  const skipped = run.skipped.map(({ reason, tasks }) => `${formatCount(tasks)} left: ${reason}`).join(', ');
  const changed = `${past} ${formatMany(run.changed, 'task')}${skipped === '' ? '' : ` (${skipped})`}`;
  return run.state === BulkRunState.BULK_RUN_STATE_RUNNING ? `${changed}; the run goes on` : changed;
}
