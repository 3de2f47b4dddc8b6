import { sleep, type Timing } from '@taskmaster/client/internal';
import type { Kill } from '../../load/report/load-report.ts';
import { type CommandEnd, commandEndText } from '../run-command.ts';

export interface KillLoopParts {
  readonly timing: Timing;
  readonly everyMs: number;
  /** Runs the command for the n-th time, from 1. */
  readonly run: (number: number) => Promise<CommandEnd>;
  readonly onKill: (kill: Kill) => void;
}

/** Runs a command again and again until the signal is aborted. Resolves with what it did, when the last run has ended. */
export async function runKills({ timing, everyMs, run, onKill }: KillLoopParts, signal: AbortSignal): Promise<Kill[]> {
  const start = timing.now();
  const kills: Kill[] = [];
  for (let number = 1; ; number++) {
    const due = start + number * everyMs;
    await sleep(timing, Math.max(0, due - timing.now()), signal).catch(() => undefined);
    if (signal.aborted) return kills;
    const atMs = timing.now() - start;
    const ended = commandEndText(await run(number));
    const kill = { atMs, endedAtMs: timing.now() - start, ended };
    kills.push(kill);
    onKill(kill);
  }
}
