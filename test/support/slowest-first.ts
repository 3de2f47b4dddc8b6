import { fileURLToPath } from 'node:url';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Test files that take longest, beginning with the longest. Begun last, one of them would keep the other workers waiting. */
export const SLOWEST = [
  'sim/cluster/cluster',
  'model/model',
  'tidy/types',
  '../packages/node/src/store/rocks-store-process',
  '../packages/node/src/cli/serve-node',
  'routing/backups',
  '../packages/node/src/transport-contract',
  '../packages/node/src/store/rocks-store-contract',
  '../packages/node/src/cluster/placement/handoff/hand-off-crashes',
  '../packages/node/src/store/rocks-store-damage',
  '../packages/postgres/src/pg-session',
  '../packages/postgres/src/open-store',
  '../packages/engine/src/partitions/backup/backups',
  'model/looks',
  'sim/crash-points',
  'chart/render',
  'chart/alerts',
  'e2e/demo',
  'process/packages',
  'process/postgres-machines',
  'process/postgres-cluster',
  'cli/scenarios',
  'process/dashboard',
  'process/cluster-start',
  'process/backup',
  'process/network-cuts',
  'process/cluster',
  'process/rolling-restart',
  'e2e/examples',
  'process/postgres',
  '../bench/run',
  'process/start-and-stop',
  'process/spread-enqueues',
  'process/external-scaler',
  'process/schedules',
  'process/backup-postgres',
  'process/flows',
  'process/backup-full-disk',
  'process/cluster-join',
  'process/removed-node',
  'process/sharded-queue',
  'process/gossip',
  'process/matching-queues',
  'process/proxy',
  'process/workers',
  'process/old-copy',
  'attacks/waiting-names',
  'process/bulk-runs',
  'process/damage',
  'process/idle-polls',
  'process/kill',
  'process/full-disk',
  'attacks/stalled-requests',
  'process/failed-children',
  'process/client-routing',
  'cli/interrupted',
  'cli/load',
  'cli/large-file',
  'cli/pids',
  'cli/terminal',
  'cli/lost-nodes',
  'cli/cluster',
  'process/events',
];

export const fileOf = (name: string): string => fileURLToPath(new URL(`../${name}.test.ts`, import.meta.url));

/** Begins with the slowest files: a fresh clone has no durations of an earlier run to order them by. */
export default class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = SLOWEST.findIndex((name) => moduleId === fileOf(name));
      return rank < 0 ? SLOWEST.length : rank;
    };
    return sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
  }
}
