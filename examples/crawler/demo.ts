/** The demo: `npm run demo`. See examples/README.md. */
import { readOptions } from './options.ts';
import { Screen } from './progress/screen.ts';
import { reportLines } from './report.ts';
import { runDemo } from './run-demo.ts';

const INTERRUPTED = 130;

const options = readOptions(process.argv.slice(2));
const screen = new Screen(process.stdout, { quiet: options.json });
const interruption = new AbortController();
const interrupt = (): void => {
  // A second signal ends the demo immediately. Its child processes are killed on exit.
  if (interruption.signal.aborted) process.exit(INTERRUPTED);
  interruption.abort(new Error('interrupted'));
};
process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
// A terminal that closes sends SIGHUP more than once, so a second one is not a second request.
process.on('SIGHUP', () => interruption.abort(new Error('interrupted')));
// A closed terminal accepts no output.
process.stderr.on('error', () => {});
// The reader has closed the pipe, for example `npm run demo | head`.
process.stdout.on('error', () => interruption.abort(new Error('the output was closed')));

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
// Idle connections of the site must not keep the demo alive.
process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
