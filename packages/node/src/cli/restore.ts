import { resolve } from 'node:path';
import { BackupError } from '@taskmaster/backup';
import type { RestoredBackup, RestoreProgress } from '@taskmaster/engine';
import { StoreFullError } from '@taskmaster/engine/ports';
import { escapeControls, visibleJson } from '@taskmaster/proto';
import { complain, createLogger, explainStartError, untilSignal, withoutPasswords } from '@taskmaster/server/program';
import type { NodeSettings } from '../config.ts';
import { restoreNode } from '../restore.ts';

export interface RestoreCommand {
  readonly config: NodeSettings;
  /** Where the backup is. */
  readonly from: string;
  /** Report the outcome as one line of JSON, for programs. */
  readonly json: boolean;
}

/** Time between two lines about the progress, in ms. */
const TELL_EVERY_MS = 5_000;
const MIB = 1024 * 1024;

/** Restores a backup into the data directory or the database. Resolves with the exit code of the process. */
export async function restore({ config, from, json }: RestoreCommand): Promise<number> {
  const stopping = new AbortController();
  void untilSignal((signal) => stopping.abort(new Error(`interrupted by ${signal}`)));
  const started = performance.now();
  let toldAt = started;
  const onProgress = (progress: RestoreProgress): void => {
    if (json || performance.now() - toldAt < TELL_EVERY_MS) return;
    toldAt = performance.now();
    process.stderr.write(`${progressText(progress)}\n`);
  };
  try {
    const log = createLogger(config.logLevel);
    const { stdin } = process;
    const restored = await restoreNode(config, { from, stdin, log, signal: stopping.signal, onProgress });
    const seconds = (performance.now() - started) / 1000;
    process.stdout.write(json ? outcomeJson(restored, config, seconds) : outcomeText(restored, config, seconds));
    return 0;
  } catch (error) {
    complain('taskmaster-node', explain(error, config));
    return 1;
  }
}

function explain(error: unknown, config: NodeSettings): string {
  if (error instanceof BackupError) {
    return `${error.reason}: ${error.message}${error.hint === undefined ? '' : `; ${error.hint}`}`;
  }
  const message = explainStartError(error, config);
  return error instanceof StoreFullError ? `${message}: free space, then run the same restore again` : message;
}

const countOf = (count: number, noun: string): string =>
  `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;

function progressText({ partitions, partitionCount, tasks, bytes }: RestoreProgress): string {
  const all = partitionCount === undefined ? '' : ` of ${partitionCount.toLocaleString('en-US')}`;
  return `${partitions.toLocaleString('en-US')}${all} partitions, ${countOf(tasks, 'task')}, ${(bytes / MIB).toFixed(1)} MiB`;
}

function outcomeText({ manifest, progress }: RestoredBackup, config: NodeSettings, seconds: number): string {
  const { url, schema } = config.store;
  const whose = manifest.clusterId === '' ? 'a node without a cluster' : `cluster ${manifest.clusterId}`;
  return [
    `Restored ${countOf(progress.tasks, 'task')} in ${countOf(progress.queues, 'queue')} in ${seconds.toFixed(1)} s.`,
    `  backup  of ${escapeControls(whose)}, begun at ${escapeControls(manifest.begunAt)}`,
    ...(url === ''
      ? [
          `  data    ${resolve(config.dataDir)}`,
          'Start a node with this directory. With --bootstrap it begins a new cluster.',
        ]
      : [`  data    schema ${schema} of ${withoutPasswords(url)}`, 'Start a node with this store.']),
    '',
  ].join('\n');
}

function outcomeJson({ manifest, progress }: RestoredBackup, config: NodeSettings, seconds: number): string {
  const { url, schema } = config.store;
  const { clusterId, begunAt, finishedAt } = manifest;
  const { tasks, queues, bytes, partitions } = progress;
  const backup = { cluster: clusterId, begunAt, finishedAt };
  const where = url === '' ? { dataDir: resolve(config.dataDir) } : { store: withoutPasswords(url), schema };
  const line = { restored: true, ...where, partitions, queues, tasks, bytes, seconds, backup };
  return `${visibleJson(JSON.stringify(line))}\n`;
}
