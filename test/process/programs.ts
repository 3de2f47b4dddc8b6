import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, startProcess } from '../support/child-process.ts';

const folder = join(dirname(fileURLToPath(import.meta.url)), 'programs');

/** Starts one of the programs of `programs/` in a process of its own, from its source, as the tests themselves run. */
export function startProgram(name: string, ...args: readonly (string | number)[]): Promise<Running> {
  return startProcess(process.execPath, programArgs(name, ...args));
}

/** What Node has to be told to run one of the programs. */
export function programArgs(name: string, ...args: readonly (string | number)[]): string[] {
  return ['--conditions=source', join(folder, name), ...args.map(String)];
}
