import type { SeededRandom } from '@taskmaster/engine/testing';
import type { SimNode } from '@taskmaster/node/testing';

export type DiskFault = 'failed write' | 'failed fsync' | 'full disk';

/** The failing write is at most this many writes away. */
const FAILING_WITHIN = 6;

/** Makes the disk of a node fail soon, or full from now on. A full disk lasts until `mendDisk`, a failed one until a restart. */
export function failDisk({ h: { disk } }: SimNode, random: SeededRandom): DiskFault {
  const nth = 1 + random.int(FAILING_WITHIN);
  switch (random.int(3)) {
    case 0:
      disk.failWrite(nth);
      return 'failed write';
    case 1:
      disk.failSync(nth);
      return 'failed fsync';
    default:
      disk.space = 'none';
      return 'full disk';
  }
}

/** Ends the faults of the disk. A node whose disk has failed serves nothing until it restarts. */
export function mendDisk({ h: { disk } }: SimNode): void {
  disk.failWrite(0);
  disk.failSync(0);
  disk.space = 'plenty';
}

export const hasFailed = (node: SimNode): boolean => node.isUp && node.h.engine.health.kind === 'failed';
