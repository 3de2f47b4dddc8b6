import { type BulkRun, BulkRunState, parseQueueName } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { actionNames } from '../../data/bulk.ts';
import { call } from '../../data/rpc.ts';
import { Action } from '../../parts/action.tsx';
import { Badge } from '../../parts/bits.tsx';
import { Table } from '../../parts/table.tsx';
import { Text, visible, When } from '../../parts/text.tsx';
import { formatCount, formatMany } from '../../show/format.ts';

/** Bulk runs whose patterns match the queue. */
export function BulkRuns({ of, queue }: { readonly of: readonly BulkRun[]; readonly queue: string }): VNode {
  const { group } = parseQueueName(queue);
  return (
    <Table
      label="Bulk runs"
      rows={of}
      keyOf={({ id }) => id}
      empty={<p>No bulk run of its queues is kept. Runs are kept for 7 days.</p>}
      columns={[
        {
          key: 'what',
          title: 'Run',
          cell: ({ spec, queues, id }) => (
            <span title={visible(id)}>
              {actionNames[spec?.action ?? 0] ?? 'unknown'} <Text of={queues} most={80} />
            </span>
          ),
        },
        { key: 'state', title: 'State', cell: (run) => <State of={run} /> },
        {
          key: 'changed',
          title: 'Changed',
          isNumber: true,
          cell: ({ changed, ...run }) => (
            <span title={`of ${formatMany(run.tasks, 'task')}, ${formatCount(run.lookedAt)} looked at`}>
              {formatCount(changed)}
            </span>
          ),
        },
        { key: 'by', title: 'By', from: 'tablet', cell: ({ startedBy }) => <Text of={startedBy} most={60} /> },
        { key: 'began', title: 'Began', from: 'tablet', cell: ({ startedUnixMs }) => <When at={startedUnixMs} /> },
        {
          key: 'do',
          title: '',
          cell: (run) =>
            run.state === BulkRunState.BULK_RUN_STATE_RUNNING ? (
              <Action
                label="Stop…"
                right="lease"
                group={group}
                title={`Stop the run on ${visible(run.queues)}`}
                confirm="Stop the run"
                run={async () => {
                  const { cancelled } = await call('CancelBulkRun', { queue: `${group}#`, id: run.id });
                  return cancelled ? 'Stopped the run' : 'The run had ended already';
                }}
              >
                <p>
                  It has changed {formatMany(run.changed, 'task')}, which stay changed. The others stay as they are.
                </p>
              </Action>
            ) : undefined,
        },
      ]}
    />
  );
}

function State({ of }: { readonly of: BulkRun }): VNode {
  switch (of.state) {
    case BulkRunState.BULK_RUN_STATE_RUNNING:
      return <Badge tone="info">{`${of.tasks === 0 ? 0 : Math.floor((100 * of.lookedAt) / of.tasks)} %`}</Badge>;
    case BulkRunState.BULK_RUN_STATE_DONE:
      return <Badge tone="good">done</Badge>;
    case BulkRunState.BULK_RUN_STATE_CANCELLED:
      return <Badge tone="quiet">stopped</Badge>;
    default:
      return (
        <Badge tone="bad">
          failed: <Text of={of.problem} most={120} />
        </Badge>
      );
  }
}
