import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { startProcess } from './processes/child-process.ts';

/** Why a program of Prometheus cannot be used here; undefined if it can. */
export function whyNo(program: 'prometheus' | 'promtool'): string | undefined {
  const { status, error } = spawnSync(program, ['--version']);
  return status === 0 ? undefined : `there is no ${program}: ${error?.message ?? `exit code ${status}`}`;
}

/** For the title of a test that is skipped. */
export const skippedBecause = (reason: string | undefined): string =>
  reason === undefined ? '' : ` (skipped: ${reason})`;

/** A Prometheus in its own process. Disposing of it kills it. */
export interface RunningPrometheus extends AsyncDisposable {
  /** The data of a reply of its API, for example of `rules`. */
  get(path: string): Promise<unknown>;
}

/** Starts a Prometheus that keeps its data in `dir`. Paths in the configuration are relative to `dir`. */
export async function startPrometheus(dir: string, config: object): Promise<RunningPrometheus> {
  // YAML is a superset of JSON.
  await writeFile(join(dir, 'prometheus.yml'), JSON.stringify(config));
  const running = await startProcess('prometheus', [
    `--config.file=${join(dir, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    '--web.listen-address=127.0.0.1:0',
  ]);
  const address = await eventually(() => {
    const [, found] = /Listening on" address=(127\.0\.0\.1:\d+)/.exec(running.stderr) ?? [];
    if (found === undefined) throw new Error(`Prometheus does not listen: ${running.stderr}`);
    return found;
  });
  return {
    get: async (path) => {
      const reply = await fetch(`http://${address}/api/v1/${path}`);
      const { data, error } = (await reply.json()) as { readonly data?: unknown; readonly error?: string };
      if (error !== undefined) throw new Error(`${path}: ${error}`);
      return data;
    },
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}
