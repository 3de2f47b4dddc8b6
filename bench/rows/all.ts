import type { Row } from '../row.ts';
import { clusterCpu } from './cluster-cpu.ts';
import { contention } from './contention.ts';
import { depthRows } from './depth.ts';
import { enqueueToWaiting } from './enqueue-to-waiting.ts';
import { handOff } from './hand-off.ts';
import { idlePolls } from './idle-polls.ts';
import { isolation } from './isolation.ts';
import { kill } from './kill.ts';
import { manyQueues } from './many-queues.ts';
import { membership } from './membership.ts';
import { rollingRestart } from './rolling-restart.ts';
import { takenHead } from './taken-head.ts';
import { taskSizes } from './task-sizes.ts';
import { throughProxy } from './through-proxy.ts';
import { throughputRows } from './throughput.ts';

/** Every row, in the order of the report: B1 to B16, then those of clusters. */
export const rows: readonly Row[] = [
  ...throughputRows,
  enqueueToWaiting,
  ...depthRows,
  takenHead,
  manyQueues,
  isolation,
  contention,
  throughProxy,
  idlePolls,
  taskSizes,
  clusterCpu,
  handOff,
  membership,
  kill,
  rollingRestart,
];
