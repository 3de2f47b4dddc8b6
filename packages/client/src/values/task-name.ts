import { type Pid, type PidLike, pidBytes } from './pid.ts';

/** Names a task of a queue by its key, wherever it is in the queue. */
export interface ByKey {
  readonly key: string;
}

/** What names a task of a queue: its PID, or its key. */
export type TaskName = PidLike | ByKey;

const NO_PID: Pid = new Uint8Array(0);

/** The fields of an item that name its task. @throws TypeError for a bad PID or an empty key. */
export function nameFields(name: TaskName): { readonly pid: Pid; readonly key?: string } {
  if (!isByKey(name)) return { pid: pidBytes(name) };
  if (name.key === '') throw new TypeError('the key of a task has at least one character');
  return { pid: NO_PID, key: name.key };
}

/** @throws TypeError for an object that is neither a PID nor a key. */
export function isByKey(name: TaskName): name is ByKey {
  if (typeof name !== 'object' || ArrayBuffer.isView(name)) return false;
  if (name !== null && 'key' in name && typeof name.key === 'string') return true;
  throw new TypeError('a task is named by its PID, a string or a Uint8Array, or as { key }');
}

/** The bytes of the PID, or of the key. */
export const nameBytes = (name: TaskName): Uint8Array => pidBytes(isByKey(name) ? name.key : name);
