import {
  BulkAction,
  BulkFilter,
  type BulkPlace,
  type BulkRun,
  BulkRunState,
  BulkSpec,
  parseQueueName,
  type TaskInfo,
} from '@taskmaster/proto/messages';
import { call, make } from './rpc.ts';

export interface BulkChoice {
  readonly action: BulkAction;
  readonly filter: Partial<BulkFilter>;
  readonly cancelReason?: string;
  readonly delayMs?: number;
}

/** What a run would do now. */
export interface Preview {
  /** Tasks that it would change. */
  readonly matched: number;
  /** Of the tasks that match, those that it would leave alone because they are leased. */
  readonly leased: number;
  /** Queues whose names match. A name with `*` is a pattern. */
  readonly queues: number;
  /** False: there are more tasks than were looked at. */
  readonly isWhole: boolean;
  readonly samples: readonly TaskInfo[];
}

/** Each looks at up to 100,000 tasks. */
const MOST_CALLS = 10;

const specOf = ({ action, filter, cancelReason = '', delayMs = 0 }: BulkChoice): BulkSpec =>
  make(BulkSpec, { action, filter: make(BulkFilter, filter), cancelReason, delayMs });

/** Counts the tasks that a run would change. */
export async function previewBulk(queues: string, choice: BulkChoice, signal: AbortSignal): Promise<Preview> {
  let total: Preview = { matched: 0, leased: 0, queues: 0, isWhole: false, samples: [] };
  let previewFrom: BulkPlace | undefined;
  for (let calls = 0; calls < MOST_CALLS; calls++) {
    const { preview } = await call(
      'StartBulkRun',
      { queues, spec: specOf(choice), preview: true, previewFrom },
      signal,
    );
    if (preview === undefined) return total;
    total = {
      matched: total.matched + preview.matched,
      leased: total.leased + preview.leased,
      queues: preview.queues,
      isWhole: preview.next === undefined,
      samples: total.samples.length > 0 ? total.samples : preview.samples,
    };
    previewFrom = preview.next;
    if (previewFrom === undefined) break;
  }
  return total;
}

/** How long the page waits for the end of a run before it says that it goes on, in ms. */
const PATIENCE_MS = 6_000;
const ASK_MS = 300;

/** Starts a run. Resolves with it when it has ended, or after some seconds. */
export async function startBulk(queues: string, choice: BulkChoice): Promise<BulkRun | undefined> {
  const id = `console-${randomId()}`;
  let { run } = await call('StartBulkRun', { id, queues, spec: specOf(choice), allTasks: true });
  const until = Date.now() + PATIENCE_MS;
  while (run?.state === BulkRunState.BULK_RUN_STATE_RUNNING && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    const listed = await call('ListBulkRuns', { queue: `${parseQueueName(queues).group}#`, id });
    run = listed.runs[0] ?? run;
  }
  return run;
}

/** `crypto.randomUUID` is missing where the page came over plain HTTP. */
const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');

export const actionNames: Readonly<Record<number, string>> = {
  [BulkAction.BULK_ACTION_RETRY]: 'retry',
  [BulkAction.BULK_ACTION_MOVE]: 'move',
  [BulkAction.BULK_ACTION_DELETE]: 'delete',
  [BulkAction.BULK_ACTION_CANCEL]: 'cancel',
  [BulkAction.BULK_ACTION_RESCHEDULE]: 'reschedule',
  [BulkAction.BULK_ACTION_PROMOTE]: 'run now',
};
