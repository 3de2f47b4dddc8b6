/** The demo: `npm run demo`. See README.md beside this folder. */
import { readOptions } from './options.ts';
import { Screen } from './progress/screen.ts';
import { reportLines } from './report.ts';
import { runDemo } from './run-demo.ts';

const INTERRUPTED = 130;

const options = readOptions(process.argv.slice(2));
const screen = new Screen(process.stdout, { quiet: options.json });
const interruption = new AbortController();
const interrupt = (): void => {
  // The second time, whoever waits has lost patience: what is still running is killed on the way out.
  if (interruption.signal.aborted) process.exit(INTERRUPTED);
  interruption.abort(new Error('interrupted'));
};
process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
// A terminal that is closed says so more than once, through its shell and by itself: that is no impatience.
process.on('SIGHUP', () => interruption.abort(new Error('interrupted')));
// Nor does it take what is said last.
process.stderr.on('error', () => {});
// Whoever read the output has gone: `npm run demo | head`.
process.stdout.on('error', () => interruption.abort(new Error('nobody reads the output')));

try {
  const summary = await runDemo(options, screen, interruption.signal);
  if (options.json) process.stdout.write(`${JSON.stringify(summary, undefined, 2)}\n`);
  else for (const line of reportLines(summary, screen.paint)) screen.say(line);
  process.exitCode = summary.ok ? 0 : 1;
} catch (error) {
  screen.release();
  if (interruption.signal.aborted) {
    process.stderr.write('interrupted; everything is cleaned up\n');
    process.exitCode = INTERRUPTED;
  } else {
    process.stderr.write(`the demo failed: ${error instanceof Error ? error.stack : String(error)}\n`);
    process.exitCode = 1;
  }
}
// What the site has kept alive of its connections must not keep the demo alive.
process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
