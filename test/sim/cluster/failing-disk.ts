import type { SimNode } from '@taskmaster/node/testing';
import type { SeededRandom } from '@taskmaster/server/testing';

export type DiskFault = 'failed write' | 'failed fsync' | 'full disk';

/** Writes until the one that fails, at most. */
const FAILING_WITHIN = 6;

/** The disk of a node fails soon, or is full from now on; until `mend` or, where it failed, for the rest of its run. */
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

/** Nothing fails any more. A node whose disk has failed serves nothing before it is started again. */
export function mendDisk({ h: { disk } }: SimNode): void {
  disk.failWrite(0);
  disk.failSync(0);
  disk.space = 'plenty';
}

export const hasFailed = (node: SimNode): boolean => node.isUp && node.h.engine.health.kind === 'failed';
