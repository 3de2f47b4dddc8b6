import { closeSync, constants, fstatSync, openSync } from 'node:fs';

/**
 * Opens a file and makes sure that it is a regular one. A pipe without a peer would stop the program for ever, and a device may
 * have no end. `flags`: of `open`. `mode`: of a file that is created. Throws an error for operators.
 */
export function openRegularFile(path: string, flags: number, mode?: number): number {
  const fd = openSync(path, flags | constants.O_NONBLOCK, mode);
  try {
    if (!fstatSync(fd).isFile()) throw new Error(`${path} is not a regular file`);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
