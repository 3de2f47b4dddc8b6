import { formatQueueName } from '@taskmaster/proto';
import { excerpt, groupName, nameRegex, queueName, refuse } from '@taskmaster/server/requests';
import type { Figures, Selection } from './figures.ts';

/** What a trigger of an autoscaler wants to know. */
export interface Trigger {
  readonly selection: Selection;
  /** Name of the metric, for the autoscaler. */
  readonly metricName: string;
  /** Value for which one worker is enough. */
  readonly target: number;
  readonly measure: (figures: Figures) => number;
  /** With a larger value workers are needed. */
  readonly activation: number;
}

/** The metadata of a trigger, as an autoscaler sends them. */
type Metadata = Readonly<Record<string, string>>;

interface Metric {
  readonly name: string;
  readonly targetKey: string;
  readonly activationKey: string;
  readonly measure: (figures: Figures) => number;
}

const METRICS = {
  tasks: {
    name: 'taskmaster-tasks',
    targetKey: 'targetTasks',
    activationKey: 'activationTasks',
    // Leased tasks count, so that a worker is not removed while it works.
    measure: ({ tasks }) => tasks,
  },
  oldestAgeSeconds: {
    name: 'taskmaster-oldest-age-seconds',
    targetKey: 'targetAgeSeconds',
    activationKey: 'activationAgeSeconds',
    measure: oldestAgeSeconds,
  },
} as const satisfies Record<string, Metric>;

const KEYS: ReadonlySet<string> = new Set([
  'group',
  'queue',
  'pattern',
  'metric',
  ...Object.values(METRICS).flatMap(({ targetKey, activationKey }) => [targetKey, activationKey]),
]);

/** KEDA sends the keys for its own connection, too. */
const KEYS_OF_KEDA: ReadonlySet<string> = new Set([
  'scalerAddress',
  'enableTLS',
  'unsafeSsl',
  'caCert',
  'tlsCertFile',
  'tlsClientCert',
  'tlsClientKey',
]);

/** Reads the metadata of a trigger. Throws a `Refusal` that names the key at fault. */
export function parseTrigger(metadata: Metadata): Trigger {
  for (const key of Object.keys(metadata)) {
    if (!KEYS.has(key) && !KEYS_OF_KEDA.has(key))
      wrong(excerpt(key), `is unknown: the keys are ${[...KEYS].join(', ')}`);
  }
  const selection = selectionOf(metadata);
  const metric = metricOf(metadata.metric);
  for (const { targetKey, activationKey } of Object.values(METRICS)) {
    if (targetKey === metric.targetKey) continue;
    for (const key of [targetKey, activationKey]) {
      if (metadata[key] !== undefined) wrong(key, `is not for this metric: use ${metric.targetKey}, or another metric`);
    }
  }
  const { targetKey, activationKey, name: metricName, measure } = metric;
  const target =
    numberAt(metadata, targetKey) ?? wrong(targetKey, 'is missing: the value for which one worker is enough');
  if (target === 0) wrong(targetKey, 'is 0: must be larger');
  const activation = numberAt(metadata, activationKey) ?? 0;
  return { selection, metricName, target, activation, measure };
}

function metricOf(name = 'tasks'): Metric {
  if (name === 'tasks' || name === 'oldestAgeSeconds') return METRICS[name];
  return wrong('metric', `is ${excerpt(name)}: must be tasks or oldestAgeSeconds`);
}

function selectionOf({ group, queue, pattern }: Metadata): Selection {
  if (group === undefined)
    return wrong('group', 'is missing: the part of the name before "#", "" for the default group');
  groupName(group, { field: fieldOf('group') });
  if (queue !== undefined && pattern !== undefined) return wrong('pattern', 'is set beside queue: use one of them');
  if (queue !== undefined) {
    if (queue.includes('#')) return wrong('queue', `is ${excerpt(queue)}: leave out the group, or use a pattern`);
    const full = formatQueueName({ group, name: queue });
    queueName(full, { field: fieldOf('queue') });
    return { group, key: JSON.stringify([group, queue]), request: { queues: [full], filter: undefined } };
  }
  if (pattern === undefined) return wrong('queue', 'is missing: name a queue, or several with pattern');
  if (pattern === '') return wrong('pattern', 'is empty: ".*" matches every queue of the group');
  nameRegex(pattern, { field: fieldOf('pattern') });
  return {
    group,
    key: JSON.stringify([group, undefined, pattern]),
    request: { queues: [], filter: { nameRegex: pattern, group } },
  };
}

/** Digits with an optional fraction. Larger numbers do not fit into every format of an autoscaler. */
const NUMBER = /^\d{1,12}(\.\d{1,6})?$/;

function numberAt(metadata: Metadata, key: string): number | undefined {
  const text = metadata[key];
  if (text === undefined) return undefined;
  return NUMBER.test(text) ? Number(text) : wrong(key, `is ${excerpt(text)}: must be a number such as 20 or 0.5`);
}

function oldestAgeSeconds({ oldestAgeMs, unseenQueues }: Figures): number {
  if (unseenQueues > 0) {
    refuse('TOO_MANY_ITEMS', { field: fieldOf('pattern') }, `matches ${unseenQueues} queues too many for their age`);
  }
  return oldestAgeMs / 1000;
}

const fieldOf = (key: string): string => `scalerMetadata.${key}`;

function wrong(key: string, problem: string): never {
  return refuse('INVALID_ARGUMENT', { field: fieldOf(key) }, problem);
}
