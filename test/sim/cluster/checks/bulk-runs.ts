import { bulkRunOf, startBulk } from '@taskmaster/engine/testing';
import type { SimCluster } from '@taskmaster/node/testing';
import { BulkAction, BulkRunState, parseQueueName, partitionOf } from '@taskmaster/proto';

/** Groups of their own: no other call is about their queues. */
const GROUPS = ['b0', 'b1', 'b2'] as const;
const TASKS = 150;
/** So the runs go on during the faults, which last for some seconds. */
const PER_SECOND = 30;
/** Longer than a run takes, and than the difference of any two clocks. */
const RUNS_END_MS = 15_000;

/** Bulk runs that move tasks during the faults. Each task must be moved once, unless its partition was lost. */
export class BulkRuns {
  readonly #cluster: SimCluster;

  constructor(cluster: SimCluster) {
    this.#cluster = cluster;
  }

  /** Call it before the first fault. */
  async start(): Promise<void> {
    for (const group of GROUPS) {
      const pids = Array.from({ length: TASKS }, (_, at) => `p${at}`);
      const harness = this.#holderOf(group);
      await this.#cluster.run(harness.enqueue(`${group}#new`, pids));
      const spec = { action: BulkAction.BULK_ACTION_MOVE, target: `${group}#moved`, rate: PER_SECOND };
      await this.#cluster.run(startBulk(harness.engine, `${group}#n*`, spec));
    }
  }

  /** Violations in a settled cluster. `givenUp`: partitions that were lost, or are older copies. */
  async violations(givenUp: ReadonlySet<number>): Promise<string[]> {
    const cluster = this.#cluster;
    await cluster.pass(RUNS_END_MS);
    const violations: string[] = [];
    for (const group of GROUPS) {
      if (givenUp.has(partitionOf(group, cluster.partitions))) continue;
      const { engine } = this.#holderOf(group);
      const run = await cluster.run(bulkRunOf(engine, group));
      const queues = [`${group}#moved`, `${group}#new`].map(parseQueueName);
      const { queues: stats } = await cluster.run(engine.queueStats({ kind: 'named', queues }));
      const [moved, left] = stats.map(({ available }) => available);
      const { state, changed, lookedAt, skipped = [] } = run ?? {};
      const isDone = state === BulkRunState.BULK_RUN_STATE_DONE && skipped.length === 0;
      if (isDone && changed === TASKS && lookedAt === TASKS && moved === TASKS && left === 0) continue;
      const counts = `${changed} changed and ${lookedAt} looked at, ${moved} moved and ${left} left`;
      violations.push(`(m) the bulk run of ${group} on ${TASKS} tasks is in the state ${state}: ${counts}`);
    }
    return violations;
  }

  #holderOf(group: string) {
    const holder = this.#cluster.holderOf(group);
    if (!holder) throw new Error(`no node holds group ${group}`);
    return holder.h;
  }
}
