import type { Row } from '../row.ts';
import { backup } from './backup.ts';
import { clusterCpu } from './cluster/cluster-cpu.ts';
import { handOff } from './cluster/hand-off.ts';
import { kill } from './cluster/kill.ts';
import { membership } from './cluster/membership.ts';
import { oneMachine } from './cluster/one-machine.ts';
import { rollingRestart } from './cluster/rolling-restart.ts';
import { sharded } from './cluster/sharded.ts';
import { sharedDatabase } from './cluster/shared-database.ts';
import { throughProxy } from './cluster/through-proxy.ts';
import { contention } from './contention.ts';
import { controlCost } from './control-cost.ts';
import { depthRows } from './depth.ts';
import { enqueueToWaiting } from './enqueue-to-waiting.ts';
import { events } from './events.ts';
import { handlerTests } from './handler-tests.ts';
import { idlePolls } from './idle-polls.ts';
import { isolation } from './isolation.ts';
import { manyQueues } from './many-queues.ts';
import { securityCost } from './security-cost.ts';
import { takenHead } from './taken-head.ts';
import { taskSizes } from './task-sizes.ts';
import { throughputRows } from './throughput.ts';

/** Every row, in the order of the report: B1 to B16, then backups, security, controls, events, tests and clusters. */
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
  backup,
  securityCost,
  controlCost,
  events,
  handlerTests,
  clusterCpu,
  sharded,
  oneMachine,
  handOff,
  membership,
  kill,
  rollingRestart,
  sharedDatabase,
];
