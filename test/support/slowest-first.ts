import { fileURLToPath } from 'node:url';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Test files that take longest, beginning with the longest. Begun last, one of them would keep the other workers waiting. */
export const SLOWEST = [
  'e2e/demo',
  'process/cluster-start',
  'cli/scenarios',
  'process/backup',
  'process/network-cuts',
  'process/cluster',
  'process/packages',
  'process/damage',
  'process/rolling-restart',
  'process/kill',
  'process/start-and-stop',
  'process/removed-node',
  'cli/cluster',
  'process/client-routing',
  'process/old-copy',
  'process/full-disk',
  'process/idle-polls',
  'process/crowds',
  'attacks/stalled-requests',
  'process/cluster-join',
  'process/gossip',
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
