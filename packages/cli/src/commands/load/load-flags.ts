import { limits } from '@taskmaster/proto';
import { type Command, Option } from 'commander';
import { anyWholeNumber, lengthOfTime, wholeNumber } from '../../input/arguments.ts';
import type { RunSettings } from '../../load/run/run-instance.ts';
import { DEFAULT_MIX, type Mix } from '../../load/workload/operations.ts';
import type { Workload } from '../../load/workload/settings.ts';
import { UsageError } from '../../views/cli-errors.ts';
import { decimal, groupPrefix, mix, mixText, type SizeRange, sizeRange } from './load-arguments.ts';

/** Options of `load`. */
export interface LoadFlags {
  readonly duration: number;
  readonly rate?: number;
  readonly depth?: number;
  readonly maxInFlight: number;
  readonly mix: Mix;
  readonly batch: number;
  readonly groups: number;
  readonly queues: number;
  readonly payload: SizeRange;
  readonly skew: number;
  readonly pids: 'fifo' | 'random';
  readonly leaseDuration: number;
  readonly wait: number;
  readonly maxDelay: number;
  readonly backlog: number;
  readonly seed: number;
  readonly connections: number;
  readonly processes: number;
  readonly instance: number;
  readonly instances: number;
  readonly startTimeout: number;
  readonly group: string;
  readonly force?: true;
  readonly keep?: true;
  readonly verify?: true;
  readonly clockSlack: number;
  readonly historyTasks: number;
  readonly verifyTimeout: number;
  readonly killCommand?: string;
  readonly killEvery: number;
  readonly report?: string;
  readonly html?: string;
}

/** Processes of all instances together. A rendezvous reads a task of each with one request. */
const MOST_PROCESSES = limits.peekTasks;
const DEFAULT_DEPTH = 64;
const MOST_QUEUES = 10_000;

export function addLoadFlags(command: Command): void {
  const time = (flag: string, text: string, ms: number, shown: string): Option =>
    new Option(`${flag} <duration>`, text).argParser(lengthOfTime).default(ms, shown);
  command
    .addOption(time('-d, --duration', 'how long operations begin', 30_000, '30s'))
    .option('--rate <n>', 'open loop: operations per second, of all processes together', decimal(0.001, 10_000_000))
    .option(
      '--depth <n>',
      `closed loop: operations in progress, of all processes together (default: ${DEFAULT_DEPTH})`,
      wholeNumber(1, 1_000_000),
    )
    .option('--max-in-flight <n>', 'with --rate: further operations begin late', wholeNumber(1, 1_000_000), 10_000)
    .addOption(
      new Option('--mix <operation=weight,...>', 'share of each operation')
        .argParser(mix)
        .default(DEFAULT_MIX, mixText(DEFAULT_MIX)),
    )
    .option('--batch <n>', 'tasks of one operation', wholeNumber(1, 1_000), 1)
    .option('--groups <n>', 'groups of each process', wholeNumber(1, MOST_QUEUES), 16)
    .option('--queues <n>', 'queues of each group', wholeNumber(1, MOST_QUEUES), 2)
    .addOption(
      new Option('--payload <size>', 'size of payloads, or a range: 256, 4KiB, 100-4KiB')
        .argParser(sizeRange)
        .default({ min: 256, max: 256 }, '256'),
    )
    .option('--skew <s>', "exponent of Zipf's law for the choice of queues; 0: all are equal", decimal(0, 10), 0)
    .addOption(
      new Option('--pids <kind>', 'fifo: assigned by the node; random: tasks come in any order')
        .choices(['fifo', 'random'])
        .default('fifo'),
    )
    .addOption(time('--lease-duration', 'how long leases last', 5_000, '5s'))
    .addOption(time('--wait', 'how long a lease waits if there is no task', 0, '0s'))
    .addOption(time('--max-delay', 'longest delay of a delayed task', 2_000, '2s'))
    .option('--backlog <n>', 'tasks that each process keeps in its queues, about', wholeNumber(0, 10_000_000), 1_000)
    .option('--seed <n>', 'decides all random choices', anyWholeNumber, 1)
    .option('--connections <n>', 'connections of each process', wholeNumber(1, 1_000), 1)
    .option('--processes <n>', 'processes to start on this machine', wholeNumber(1, 256), 1)
    .addOption(
      new Option('--instance <n>', 'with --instances: number of this command, from 0')
        .env('JOB_COMPLETION_INDEX')
        .argParser(anyWholeNumber)
        .default(0),
    )
    .option('--instances <n>', 'commands on several machines that start together', wholeNumber(1, MOST_PROCESSES), 1)
    .addOption(time('--start-timeout', 'longest wait for the other processes', 300_000, '5m'))
    .addOption(
      new Option('--group <group>', 'beginning of the names of all groups').argParser(groupPrefix).default('load'),
    )
    .option('--force', 'delete tasks that are in the queues of the load before it starts')
    .option('--keep', 'leave the queues as they are at the end')
    .option('--verify', 'record all calls, and check at the end that the cluster has kept its contract')
    .addOption(time('--clock-slack', 'with --verify: a lease may end earlier by this time', 100, '100ms'))
    .option(
      '--history-tasks <n>',
      'with --verify: most tasks in the history of a process; beyond it no tasks are added',
      wholeNumber(1_000, 100_000_000),
      100_000,
    )
    .addOption(time('--verify-timeout', 'with --verify: longest time to read what is left', 120_000, '2m'))
    .option('--kill-command <command>', 'a shell command to run during the load, such as one that kills a node')
    .addOption(time('--kill-every', 'with --kill-command: time between two runs', 20_000, '20s'))
    .option('--report <path>', 'write the report as JSON')
    .option('--html <path>', 'write the report as a page with charts');
}

/** The settings of each process of this command. @throws UsageError */
export function processesOf(flags: LoadFlags): readonly RunSettings[] {
  assertConsistent(flags);
  const { instance, instances, processes, connections, force = false, keep = false, startTimeout } = flags;
  const workload = workloadOf(flags);
  const verify = flags.verify && {
    clockSlackMs: flags.clockSlack,
    mostTasksHeld: flags.historyTasks,
    withinMs: flags.verifyTimeout,
  };
  return Array.from({ length: processes }, (_, index) => ({
    workload,
    connections,
    verify,
    force,
    keep,
    startWithinMs: startTimeout,
    instance: { index: instance * processes + index, count: instances * processes },
  }));
}

function workloadOf(flags: LoadFlags): Workload {
  const { rate, depth = DEFAULT_DEPTH, maxInFlight, payload } = flags;
  return {
    group: flags.group,
    groups: flags.groups,
    queues: flags.queues,
    durationMs: flags.duration,
    pace: rate === undefined ? { kind: 'depth', depth } : { kind: 'rate', perSecond: rate, maxInFlight },
    mix: flags.mix,
    batch: flags.batch,
    payloadMinBytes: payload.min,
    payloadMaxBytes: payload.max,
    skew: flags.skew,
    pids: flags.pids,
    leaseDurationMs: flags.leaseDuration,
    waitMs: flags.wait,
    delayMs: flags.maxDelay,
    backlog: flags.backlog,
    seed: flags.seed,
  };
}

function assertConsistent(flags: LoadFlags): void {
  const { rate, depth, groups, queues, instance, instances, processes, batch, payload } = flags;
  if (rate !== undefined && depth !== undefined) throw new UsageError('give --rate or --depth, not both');
  if (groups * queues > MOST_QUEUES) throw new UsageError(`--groups times --queues must be at most ${MOST_QUEUES}`);
  if (instance >= instances) throw new UsageError(`--instance must be below --instances, which is ${instances}`);
  if (instances * processes > MOST_PROCESSES) {
    throw new UsageError(`--instances times --processes must be at most ${MOST_PROCESSES}`);
  }
  if (batch * payload.max > limits.requestBytes / 2) {
    throw new UsageError('--batch times --payload is too large for one request');
  }
}
