import type { CountsReply } from '@taskmaster/cli/testing/history';
import type { Key } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import { decodeTaskRow, dueOf, type SimDisk } from '@taskmaster/engine/testing';

/** Length of partition and queue id in a key; see docs/internals/data-on-disk.md. */
const PREFIX = 8;
const INSTANT = 6;

const prefixOf = (key: Key): string => key.slice(0, PREFIX);
const show = (text: string): string => Buffer.from(text, 'latin1').toString('hex');

/**
 * The faults in the rows of a disk without work in progress. Every task must have one state and one payload. Every task to which
 * something happens by itself must be in the index of due times. Ended queues must have no rows. The counts of the queues must
 * match the rows.
 */
export function diskFaults(disk: SimDisk, counts: readonly CountsReply[]): string[] {
  const faults: string[] = [];
  const keys = (family: Family): Set<string> => new Set(disk.rowsOf(family).map(({ key }) => key));
  const [ready, hidden, data] = [keys(Family.ready), keys(Family.hidden), keys(Family.data)];
  const due = disk.rowsOf(Family.due).map(({ key }) => prefixOf(key) + key.slice(PREFIX + INSTANT));

  for (const key of ready) if (hidden.has(key)) faults.push(`${show(key)} is available and hidden`);
  for (const key of differing(new Set([...ready, ...hidden]), data)) {
    faults.push(`${show(key)} has only a state or only a payload`);
  }
  const states = [...disk.rowsOf(Family.ready), ...disk.rowsOf(Family.hidden)];
  const toBeDue = states.filter(({ value }) => dueOf(decodeTaskRow(value)) !== undefined).map(({ key }) => key);
  for (const key of differing(new Set(toBeDue), new Set(due))) {
    faults.push(`${show(key)} is hidden or must start, or is due, not both`);
  }
  if (new Set(due).size !== due.length) faults.push('a task is due twice');

  const sizes = (rows: Iterable<string>): Map<string, number> => {
    const found = new Map<string, number>();
    for (const key of rows) found.set(prefixOf(key as Key), (found.get(prefixOf(key as Key)) ?? 0) + 1);
    return found;
  };
  const [readyOf, hiddenOf] = [sizes(ready), sizes(hidden)];
  const prefixes = new Set([...readyOf.keys(), ...hiddenOf.keys()]);
  const onDisk = [...prefixes].map((prefix) => `${readyOf.get(prefix) ?? 0}+${hiddenOf.get(prefix) ?? 0}`).sort();
  const counted = counts.map(({ available, leased, delayed }) => `${available}+${leased + delayed}`).sort();
  if (onDisk.join() !== counted.join()) faults.push(`rows on disk: ${onDisk}; the queues count: ${counted}`);
  return faults;
}

/** The elements of only one of the two sets. */
const differing = (a: ReadonlySet<string>, b: ReadonlySet<string>): string[] =>
  [...a, ...b].filter((item) => a.has(item) !== b.has(item));
