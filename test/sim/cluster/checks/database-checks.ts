import type { Key, PartitionId } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { type SimCommit, type SimSharedDatabase, settle } from '@taskmaster/engine/testing';
import type { SimCluster, SimNode } from '@taskmaster/node/testing';
import { partitionOf } from '@taskmaster/proto';
import type { Trouble } from '../trouble.ts';

/** Rows of partitions that only the holder may write. Others may delete rows of ended queues and of passed windows. */
const OF_PARTITIONS: ReadonlySet<Family> = new Set([
  Family.data,
  Family.ready,
  Family.hidden,
  Family.due,
  Family.queues,
  Family.log,
  Family.requests,
]);

/**
 * (k) Only the holder of a partition changes its rows in the database. (l) A fenced node answers nothing about a partition that
 * another node serves.
 */
export class DatabaseChecks {
  readonly #cluster: SimCluster;
  readonly #trouble: Trouble;
  readonly #database: SimSharedDatabase;

  constructor(cluster: SimCluster, trouble: Trouble) {
    const { database } = cluster;
    if (database === undefined) throw new Error('the nodes of this cluster share no database');
    this.#cluster = cluster;
    this.#trouble = trouble;
    this.#database = database;
    database.onCommit = (commit) => this.#check(commit);
  }

  #check({ name, isFenced, changes }: SimCommit): void {
    if (isFenced) this.#trouble.report(`(k) ${name} wrote rows although it was fenced`);
    for (const { family, key, value } of changes) {
      if (value === undefined || !OF_PARTITIONS.has(family)) continue;
      const id = partitionOfKey(key);
      const { holder, epoch } = this.#database.holderOf(id) ?? {};
      if (holder === name) continue;
      this.#trouble.report(
        `(k) ${name} wrote a row of family ${family}, partition ${id}, which ${holder} holds at ${epoch}`,
      );
      return;
    }
  }

  /** Asks each node that was fenced, and does not know it yet, about what another node serves. */
  async askFenced(): Promise<void> {
    for (const node of this.#cluster.up) if (!node.h.clock.standsStill) this.askIfFenced(node);
    await settle();
  }

  /** The same of one node. It must not stand still. */
  askIfFenced(node: SimNode): void {
    const { h, partitions } = node;
    if (h.process?.isFenced !== true || h.engine.health.kind !== 'serving') return;
    for (const { id, state } of partitions.held()) {
      if (state === 'serving' && this.#isServedElsewhere(node, id)) this.#ask(node, id);
    }
  }

  #isServedElsewhere(node: SimNode, id: PartitionId): boolean {
    const others = this.#cluster.up.filter((other) => other !== node && other.h.process?.isFenced === false);
    return others.some(({ partitions }) => partitions.holding(id)?.kind === 'serving');
  }

  /** Asks about a queue that is not there: memory answers that alone, without a read that the database would refuse. */
  #ask({ name, h }: SimNode, id: PartitionId): void {
    const group = groupIn(id, this.#cluster.partitions);
    h.engine.queueStats({ kind: 'named', queues: [{ group, name: 'none' }] }).then(
      () => this.#trouble.report(`(l) ${name}, which is fenced, counted the tasks of a queue of partition ${id}`),
      () => {},
    );
  }
}

const partitionOfKey = (key: Key): PartitionId => (key.charCodeAt(0) * 256 + key.charCodeAt(1)) as PartitionId;

function groupIn(id: PartitionId, partitions: number): string {
  for (let number = 0; ; number++) if (partitionOf(`none${number}`, partitions) === id) return `none${number}`;
}
