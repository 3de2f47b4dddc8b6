import { workerData } from 'node:worker_threads';
import { MemoryStore, openEngine } from '@taskmaster/engine';
import { SystemClock, systemRandom } from '@taskmaster/engine/ports';
import { keptLog } from '@taskmaster/engine/testing';
import { startNodeServer } from '@taskmaster/node/testing';

/** Data that `startNodeThread` shares with its thread. */
export interface NodeThreadData {
  /** Port of the node, then the number of renewals. */
  readonly figures: Int32Array;
}

const { figures } = workerData as NodeThreadData;
const engine = await openEngine({
  store: new MemoryStore(),
  clock: new SystemClock(),
  random: systemRandom,
  log: keptLog(),
});
const { updates } = engine;
const update = updates.applyBatch.bind(updates);
updates.applyBatch = async (batch) => {
  const outcome = await update(batch);
  Atomics.add(figures, 1, batch.renew.length);
  return outcome;
};
const { port } = await startNodeServer(engine);
Atomics.store(figures, 0, port);
