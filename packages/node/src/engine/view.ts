import type { Memory } from './memory.ts';
import type { Reads } from './reads.ts';
import type { DraftView } from './task-draft.ts';

/** Memory, completed by what one operation has read. */
export function viewOf(memory: Memory, reads: Reads): DraftView {
  return {
    queue: (name) => memory.table.get(name),
    draftQueue: (name, drafts) => memory.draftQueue(name, drafts),
    known: (queue, pid) => reads.known(queue, pid),
    payload: (queue, pid) => reads.payload(queue, pid),
  };
}
