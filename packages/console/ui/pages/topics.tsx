import { type HeaderFilter, parseQueueName, type Subscription, type UnreachableNode } from '@taskmaster/proto/messages';
import type { VNode } from 'preact';
import { usePoll } from '../data/poll.ts';
import { setQuery } from '../data/route.ts';
import { CallError, call } from '../data/rpc.ts';
import { Action } from '../parts/action.tsx';
import { Pending, Unreachable } from '../parts/bits.tsx';
import { Table } from '../parts/table.tsx';
import { Name, Text, visible, When } from '../parts/text.tsx';
import { formatDuration, formatMany } from '../show/format.ts';
import type { PageProps } from '../show/place.ts';
import { hashOf } from '../show/place.ts';

/** Groups that are asked at once, of those with queues. */
const MOST_GROUPS = 50;
const QUEUES = 10_000;

interface Topics {
  readonly subscriptions: readonly Subscription[];
  readonly groups: readonly string[];
  readonly asked: number;
  /** Nodes that did not answer. The subscriptions of their groups are missing. */
  readonly unreachable: readonly UnreachableNode[];
}

/** The subscriptions of a group, or of all groups that have queues. */
async function load(group: string | undefined, signal: AbortSignal): Promise<Topics> {
  const { queues, unreachable } = await call('ListQueues', { limit: QUEUES }, signal);
  const groups = [...new Set(['', ...queues.map(({ queue }) => parseQueueName(queue).group)])];
  const asked = group === undefined ? groups.slice(0, MOST_GROUPS) : [group];
  const replies = await Promise.all(asked.map((one) => subscriptionsOf(one, group === undefined, signal)));
  return { subscriptions: replies.flat(), groups, asked: asked.length, unreachable };
}

/** Reasons why the other groups are shown without one. */
const LEFT_OUT: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'HOLDER_UNREACHABLE']);

async function subscriptionsOf(group: string, isOneOfMany: boolean, signal: AbortSignal): Promise<Subscription[]> {
  try {
    return (await call('ListSubscriptions', { topic: `${group}#` }, signal)).subscriptions;
  } catch (thrown) {
    // Which groups the user may read is not known. The default group is asked for though it may be none of them. Its node may be
    // one that does not answer, which the page says.
    if (isOneOfMany && thrown instanceof CallError && LEFT_OUT.has(thrown.reason)) return [];
    throw thrown;
  }
}

export function TopicsPage({ place }: PageProps): VNode {
  const chosen = place.query.get('group') ?? '';
  const group = chosen === '' ? undefined : chosen;
  const { data, error } = usePoll(`topics ${chosen}`, (signal) => load(group, signal), 5_000);
  return (
    <>
      <div class="head">
        <h1>Topics</h1>
        <input
          data-search
          type="search"
          aria-label="Group"
          placeholder="Group   ( / )"
          list="groups"
          value={chosen}
          spellcheck={false}
          autocomplete="off"
          onChange={(event) => setQuery({ group: event.currentTarget.value })}
        />
        <datalist id="groups">
          {data?.groups.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <span class="quiet" role="status">
          {data === undefined ? '' : formatMany(data.subscriptions.length, 'subscription')}
        </span>
      </div>
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <>
          <Unreachable of={data.unreachable} />
          <Table
            label="Subscriptions"
            rows={data.subscriptions}
            keyOf={({ topic, queue }) => `${topic}\0${queue}`}
            empty={
              <p>
                No queue is subscribed to a topic{group === undefined ? '' : ' of this group'}. A topic exists while it
                has subscriptions.
              </p>
            }
            columns={[
              {
                key: 'topic',
                title: 'Topic',
                cell: ({ topic }) => (
                  <span class="cut">
                    <Name of={topic} />
                  </span>
                ),
              },
              {
                key: 'queue',
                title: 'Queue',
                cell: ({ queue }) => (
                  <a class="cut" href={hashOf('queue', [queue])}>
                    <Name of={queue} />
                  </a>
                ),
              },
              {
                key: 'filter',
                title: 'Gets',
                from: 'tablet',
                cell: ({ filter }) => (
                  <span class="cut">
                    <Text of={filterText(filter)} most={160} />
                  </span>
                ),
              },
              {
                key: 'ends',
                title: 'Ends',
                from: 'tablet',
                cell: ({ expiresUnixMs, ttlMs }) =>
                  ttlMs === 0 ? (
                    <span class="quiet">never</span>
                  ) : (
                    <span title={`Unless it is renewed, ${formatDuration(ttlMs)} each time`}>
                      <When at={expiresUnixMs} />
                    </span>
                  ),
              },
              { key: 'unsubscribe', title: '', cell: (one) => <Unsubscribe of={one} /> },
            ]}
          />
          {data.asked < data.groups.length && group === undefined ? (
            <p class="quiet small">
              The first {data.asked} of {formatMany(data.groups.length, 'group')} are shown. Name a group to see
              another.
            </p>
          ) : undefined}
        </>
      )}
    </>
  );
}

function filterText(filter: HeaderFilter | undefined): string {
  if (filter === undefined || filter.all.length === 0) return 'all tasks';
  const tests = filter.all.map(({ key, test }) => {
    switch (test?.$case) {
      case 'in':
        return `${key} = ${test.value.values.join(' or ')}`;
      case 'prefix':
        return `${key} = ${test.value}…`;
      case 'exists':
        return test.value ? `with ${key}` : `without ${key}`;
      default:
        return `${key}: a test of a later release`;
    }
  });
  return tests.join(', ');
}

function Unsubscribe({ of: { topic, queue, deleteQueue } }: { readonly of: Subscription }): VNode {
  return (
    <Action
      label="Unsubscribe…"
      right="lease"
      group={parseQueueName(topic).group}
      isDangerous
      title={`Unsubscribe ${visible(queue)} from ${visible(topic)}`}
      confirm="Unsubscribe"
      run={async () => {
        const { existed, deletedTasks } = await call('Unsubscribe', { topic, queue });
        if (!existed) return 'It was not subscribed any more';
        const deleted = deletedTasks > 0 ? `, and deleted it with ${formatMany(deletedTasks, 'task')}` : '';
        return `Unsubscribed ${visible(queue)} from ${visible(topic)}${deleted}`;
      }}
    >
      <p>
        The queue gets nothing of the topic any more.{' '}
        {deleteQueue
          ? 'If this is its last subscription, the queue is deleted with its tasks. This cannot be undone.'
          : 'Its tasks stay.'}
      </p>
    </Action>
  );
}
