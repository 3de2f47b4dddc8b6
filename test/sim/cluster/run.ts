#!/usr/bin/env node
import { eventsBehind, type HistoryEvent, showHistory } from '@taskmaster/cli/testing/history';
import { type Arguments, HELP, readArguments, UsageError } from './arguments.ts';
import { type SimulationResult, simulate } from './simulation.ts';
import { Summary } from './summary.ts';

const INTERRUPTED = 130;
/** Number of violations that are shown for a seed. */
const SHOWN = 5;

let interrupted = false;
process.once('SIGINT', () => {
  interrupted = true;
});
// The reader of the output has ended, for example `| head`.
process.stdout.once('error', () => process.exit(0));

try {
  process.exitCode = await main(readArguments(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}

async function main(args: Arguments): Promise<number> {
  if (args.kind === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  const { first, seeds, steps, oldCopies, schedules, bulkRuns, flows, kinds, pauses, limits, json } = args;
  const { fair, signals, starts, readers, shared } = args;
  const flags = [
    `--steps ${steps}`,
    oldCopies && '--old-copies',
    schedules && '--schedules',
    bulkRuns && '--bulk-runs',
    flows && '--flows',
    kinds && '--kinds',
    pauses && '--pauses',
    limits && '--limits',
    fair && '--fair',
    signals && '--signals',
    starts && '--starts',
    readers && '--readers',
    shared && '--shared',
  ]
    .filter(Boolean)
    .join(' ');
  const traceTo = json ? process.stderr : process.stdout;
  const trace = args.trace ? (line: string): void => void traceTo.write(`${line}\n`) : undefined;
  const summary = new Summary();
  for (let seed = first; seed < first + seeds && !interrupted; seed++) {
    if (seeds > 1)
      showProgress(`seed ${seed}, ${seed - first} of ${seeds} played, ${summary.failed} broke the contract`);
    const result = await simulate({
      seed,
      steps,
      oldCopies,
      schedules,
      bulkRuns,
      flows,
      kinds,
      pauses,
      limits,
      fair,
      signals,
      starts,
      readers,
      shared: shared ? {} : undefined,
      trace,
    });
    summary.add(result);
    if (result.violations.length === 0 || json) continue;
    showProgress('');
    process.stdout.write(failureOf(result, flags));
  }
  showProgress('');
  process.stdout.write(json ? `${JSON.stringify(summary)}\n` : summary.text());
  if (interrupted) return INTERRUPTED;
  return summary.failed > 0 ? 1 : 0;
}

function failureOf({ seed, violations, events }: SimulationResult, flags: string): string {
  const lines = violations.slice(0, SHOWN).map((violation) => `  ${violation}`);
  if (violations.length > SHOWN) lines.push(`  and ${violations.length - SHOWN} more`);
  const again = `npm run sim -- --seed ${seed} ${flags} --trace`;
  return `seed ${seed} broke the contract; again: ${again}\n${lines.join('\n')}\n${behind(violations, events)}`;
}

/** The calls that the first violation with a call names. */
function behind(violations: readonly string[], events: readonly HistoryEvent[]): string {
  const named = violations.find((violation) => /#\d+/.test(violation));
  return named === undefined ? '' : `${showHistory(eventsBehind(named, events))}\n`;
}

/** Shows the progress on one line of the terminal, which the next text replaces. */
function showProgress(text: string): void {
  const { stderr } = process;
  if (stderr.isTTY) stderr.write(`\r\x1b[2K${text.slice(0, (stderr.columns ?? 80) - 1)}`);
}
