import type { Row } from '../row.ts';
import { clusterCpu } from './cluster-cpu.ts';
import { depth } from './depth.ts';
import { enqueueToWaiting } from './enqueue-to-waiting.ts';
import { handOff } from './hand-off.ts';
import { idlePolls } from './idle-polls.ts';
import { membership } from './membership.ts';
import { memory } from './memory.ts';
import { restart } from './restart.ts';
import { rollingRestart } from './rolling-restart.ts';
import { throughProxy } from './through-proxy.ts';
import { throughputRows } from './throughput.ts';

/** Every row, in the order of the report. */
export const rows: readonly Row[] = [
  ...throughputRows,
  enqueueToWaiting,
  depth,
  memory,
  restart,
  idlePolls,
  throughProxy,
  clusterCpu,
  handOff,
  membership,
  rollingRestart,
];
