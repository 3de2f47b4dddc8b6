import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, startProcess } from '../support/processes/child-process.ts';

const folder = join(dirname(fileURLToPath(import.meta.url)), 'programs');

/** Starts a program of `programs/` in its own process, from its source like the tests. */
export function startProgram(name: string, ...args: readonly (string | number)[]): Promise<Running> {
  return startProcess(process.execPath, programArgs(name, ...args));
}

/** The arguments for Node that run a program of `programs/`. */
export function programArgs(name: string, ...args: readonly (string | number)[]): string[] {
  return ['--conditions=source', join(folder, name), ...args.map(String)];
}
