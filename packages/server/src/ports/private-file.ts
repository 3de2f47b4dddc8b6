import { readFileSync, statSync } from 'node:fs';

/** The rights of users that are neither the owner nor in the group. A group may read: Kubernetes mounts Secrets so. */
const OTHERS = 0o007;

/** Reads a file with secrets. Throws an error for operators if every user of the machine could read or change it. */
export function readPrivateFile(path: string): string {
  const text = readFileSync(path, 'utf8');
  if ((statSync(path).mode & OTHERS) !== 0 && process.platform !== 'win32') {
    throw new Error(`every user can access ${path}: change its mode to 0600`);
  }
  return text;
}
