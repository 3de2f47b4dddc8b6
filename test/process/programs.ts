import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, startProcess } from '../support/child-process.ts';

const folder = join(dirname(fileURLToPath(import.meta.url)), 'programs');

/** Starts one of the programs of `programs/` in a process of its own, from its source, as the tests themselves run. */
export function startProgram(name: string, ...args: readonly (string | number)[]): Promise<Running> {
  return startProcess(process.execPath, ['--conditions=source', join(folder, name), ...args.map(String)]);
}
