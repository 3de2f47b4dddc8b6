import { existsSync } from 'node:fs';
import { exampleOf } from '../support/paths.ts';
import { type ProcessOptions, type Running, startProcess } from '../support/processes/child-process.ts';

/** Starts a built example: `hello`, `crawler/demo`. */
export function startExample(name: string, args: readonly string[], options: ProcessOptions = {}): Promise<Running> {
  const program = exampleOf(name);
  if (!existsSync(program)) throw new Error(`${program} is missing: build first`);
  return startProcess(process.execPath, [program, ...args], options);
}

/** Runs an example to its end and returns the lines of its output. Throws if it fails. */
export async function runExample(name: string, args: readonly string[]): Promise<string[]> {
  await using running = await startExample(name, args);
  const { code, stdout, stderr } = await running.ended;
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${stderr}${stdout}`);
  return stdout.trimEnd().split('\n');
}
