import { closeSync, constants, fstatSync, readFileSync } from 'node:fs';
import { openRegularFile } from './open-regular-file.ts';

/** The rights of users that are neither the owner nor in the group. A group may read: Kubernetes mounts Secrets so. */
const OTHERS = 0o007;

/** Reads a regular file. Throws an error for operators if it is something else. */
export function readPlainFile(path: string): string {
  return readFileOf(path).text;
}

/** Reads a file with secrets. Throws an error for operators if every user of the machine could read or change it. */
export function readPrivateFile(path: string): string {
  const { text, mode } = readFileOf(path);
  if ((mode & OTHERS) !== 0 && process.platform !== 'win32') {
    throw new Error(`every user can access ${path}: change its mode to 0600`);
  }
  return text;
}

function readFileOf(path: string): { readonly text: string; readonly mode: number } {
  const fd = openRegularFile(path, constants.O_RDONLY);
  try {
    return { text: readFileSync(fd, 'utf8'), mode: fstatSync(fd).mode };
  } finally {
    closeSync(fd);
  }
}
