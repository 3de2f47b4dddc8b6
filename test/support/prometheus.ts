import { spawnSync } from 'node:child_process';

/** Why a program of Prometheus cannot be used here; undefined if it can. */
export function whyNo(program: 'prometheus' | 'promtool'): string | undefined {
  const { status, error } = spawnSync(program, ['--version']);
  return status === 0 ? undefined : `there is no ${program}: ${error?.message ?? `exit code ${status}`}`;
}

/** For the title of a test that is skipped. */
export const skippedBecause = (reason: string | undefined): string =>
  reason === undefined ? '' : ` (skipped: ${reason})`;
