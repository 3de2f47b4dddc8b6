import type { Ended } from '../support/processes/child-process.ts';
import { argumentsOf, pipeOf, runInProcess, runPiped } from './in-process.ts';
import type { UserShell } from './shell.ts';

/**
 * A scenario shows what a user types and sees:
 *
 *     $ taskmaster enqueue mail hello      a line of shell; `> ` continues it
 *     created  mail  <fifo>                its standard output
 *     ! taskmaster: TASK_EXISTS: ...       its standard error
 *     [1]                                  its exit code, unless 0
 *
 * Comments are: the text before the first `$ ` of the file, blank lines, and lines that begin with `#`. Placeholders stand for
 * values that differ between runs. Several spaces match any number of spaces, because columns are as wide as their cells.
 */
const placeholders: Readonly<Record<string, string>> = {
  /** A PID that the node assigned. */
  fifo: '[0-9a-f]{16}',
  /** A length of time. */
  age: '\\d[\\d.]*(?:ms|s|m\\d\\ds|h\\d\\dm|d\\d\\dh)',
  /** An instant in JSON. */
  time: '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z',
  n: '\\d[\\d,.]*',
  /** Any text within the line. */
  any: '.*',
};

interface Step {
  readonly line: string;
  readonly said: readonly string[];
}

/** Runs a scenario. Returns the expected and the actual text, which are equal if they match. */
export async function playScenario(text: string, shell: UserShell): Promise<{ expected: string; actual: string }> {
  const expected: string[] = [];
  const actual: string[] = [];
  for (const { line, said } of stepsOf(text)) {
    const ended = await runLine(line, shell);
    const came = [
      ...linesOf(ended.stdout),
      ...linesOf(ended.stderr).map((error) => `! ${error}`),
      ...(ended.code === 0 ? [] : [`[${ended.code}]`]),
    ];
    expected.push(`$ ${line}`, ...said);
    actual.push(`$ ${line}`, ...came.map((one, at) => (matches(said[at], one) ? (said[at] ?? one) : one)));
  }
  return { expected: expected.join('\n'), actual: actual.join('\n') };
}

/** In this process if possible: that takes a third of a second less. The other lines are enough to test a process. */
async function runLine(line: string, shell: UserShell): Promise<Pick<Ended, 'code' | 'stdout' | 'stderr'>> {
  const args = argumentsOf(line);
  if (args !== undefined) return await runInProcess(args, shell);
  const piped = pipeOf(line);
  return piped === undefined ? await shell.run(line) : await runPiped(piped, shell);
}

export function stepsOf(text: string): Step[] {
  const steps: { line: string; said: string[] }[] = [];
  for (const line of text.split('\n')) {
    const current = steps.at(-1);
    if (line.startsWith('$ ')) steps.push({ line: line.slice(2), said: [] });
    else if (line.startsWith('> ') && current !== undefined) current.line += `\n${line.slice(2)}`;
    else if (line !== '' && !line.startsWith('#')) current?.said.push(line);
  }
  return steps;
}

function linesOf(output: string): string[] {
  return output.split('\n').filter((line) => line !== '');
}

function matches(expected: string | undefined, actual: string): boolean {
  if (expected === undefined) return false;
  const pattern = expected
    .split(/<(\w+)>/)
    .map((part, at) => (at % 2 === 0 ? literal(part) : (placeholders[part] ?? literal(`<${part}>`))))
    .join('');
  return new RegExp(`^${pattern}$`, 'u').test(actual.replace(/ {2,}/g, '  '));
}

function literal(text: string): string {
  return text.replace(/ {2,}/g, '  ').replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
