import { fileURLToPath } from 'node:url';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Test files that take longest, beginning with the longest. Begun last, one of them would keep the other workers waiting. */
export const SLOWEST = [
  'sim/cluster/cluster',
  'model/model',
  'model/looks',
  '../packages/node/src/cluster/placement/handoff/hand-off-crashes',
  'chart/render',
  '../packages/engine/src/partitions/backup/backups',
  '../packages/node/src/cluster/random-faults',
  '../packages/node/src/cluster/membership/removal-faults',
  'e2e/demo',
  'process/network-cuts',
  'process/packages',
  'process/cluster-start',
  'process/backup',
  'e2e/examples',
  'cli/scenarios',
  'process/cluster',
  'process/spread-enqueues',
  'process/removed-node',
  'process/start-and-stop',
  'process/damage',
  'process/kill',
  'process/sharded-queue',
  'process/gossip',
  'process/matching-queues',
  'cli/terminal',
  'process/old-copy',
  'cli/lost-nodes',
  'process/workers',
  'cli/cluster',
  'process/rolling-restart',
  'process/client-routing',
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
