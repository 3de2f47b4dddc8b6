import type { CountsReply } from '@taskmaster/cli/testing/history';
import type { Key } from '@taskmaster/engine/domain';
import { Family } from '@taskmaster/engine/ports';
import {
  decodeTaskRow,
  dueOf,
  laneOfKey,
  lanesPrefix,
  lastOf,
  orderKeyRow,
  ordersPrefix,
  type SimDisk,
} from '@taskmaster/engine/testing';

/** Length of partition and queue id in a key; see docs/internals/data-on-disk.md. */
const PREFIX = 8;
const INSTANT = 6;

const prefixOf = (key: Key): string => key.slice(0, PREFIX);
const show = (text: string): string => Buffer.from(text, 'latin1').toString('hex');

/**
 * The faults in the rows of a disk without work in progress. Every task must have one state and one payload. Every task to which
 * something happens by itself must be in the index of due times, and every available or leased task with a limit key, and every
 * available one with a kind, in that of its lane. The row of each order key must name the last task with it. Ended queues must
 * have no rows. The counts of the queues must match the rows.
 */
export function diskFaults(disk: SimDisk, counts: readonly CountsReply[]): string[] {
  const faults: string[] = [];
  const keys = (family: Family): Set<string> => new Set(disk.rowsOf(family).map(({ key }) => key));
  const [ready, hidden, data] = [keys(Family.ready), keys(Family.hidden), keys(Family.data)];
  const isLane = (key: Key): boolean => key.startsWith(lanesPrefix(prefixOf(key)));
  const isOrder = (key: Key): boolean => key.startsWith(ordersPrefix(prefixOf(key)));
  const dueRows = disk.rowsOf(Family.due).flatMap(({ key }) => (isOrder(key) ? [] : key));
  const due = dueRows.filter((key) => !isLane(key)).map((key) => prefixOf(key) + key.slice(PREFIX + INSTANT));
  const lanes = dueRows.filter(isLane).map((key) => {
    const { tag, lane, pid } = laneOfKey(key);
    return `${prefixOf(key)}${tag} ${lane.limitKey} ${lane.kind ?? ''} ${pid}`;
  });

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
  const inLanes = states.flatMap(({ key, value }) => {
    const { visibility, history } = decodeTaskRow(value);
    const { limitKey = '', kind = '' } = history?.given ?? {};
    const tag = visibility.kind === 'available' ? 'available' : visibility.lease ? 'leased' : undefined;
    // Leased tasks count by their limit keys only.
    const ofKind = tag === 'available' ? kind : '';
    const isInLane = tag !== undefined && (limitKey !== '' || ofKind !== '');
    return isInLane ? `${prefixOf(key)}${tag} ${limitKey} ${ofKind} ${key.slice(PREFIX)}` : [];
  });
  for (const lane of differing(new Set(inLanes), new Set(lanes))) {
    faults.push(`${show(lane)} is missing among the tasks of its limit key and kind, or has left them`);
  }

  const orders = disk.rowsOf(Family.due).filter(({ key }) => isOrder(key));
  const lasts = states.flatMap(({ key, value }) => {
    const orderKey = lastOf(decodeTaskRow(value).history);
    return orderKey === undefined ? [] : `${orderKeyRow(prefixOf(key), orderKey)} ${key.slice(PREFIX)}`;
  });
  const named = orders.map(({ key, value }) => `${key} ${Buffer.from(value).toString('latin1')}`);
  for (const order of differing(new Set(lasts), new Set(named))) {
    faults.push(`${show(order)} is the last task of an order key, or is named as such, not both`);
  }

  const sizes = (kind: 'available' | 'hidden'): Map<string, number> => {
    const found = new Map<string, number>();
    for (const { key, value } of states) {
      // The rows of available tasks with limit keys are among those of hidden ones.
      const isOf = decodeTaskRow(value).visibility.kind === kind;
      if (isOf) found.set(prefixOf(key), (found.get(prefixOf(key)) ?? 0) + 1);
    }
    return found;
  };
  const [readyOf, hiddenOf] = [sizes('available'), sizes('hidden')];
  const prefixes = new Set([...readyOf.keys(), ...hiddenOf.keys()]);
  const onDisk = [...prefixes].map((prefix) => `${readyOf.get(prefix) ?? 0}+${hiddenOf.get(prefix) ?? 0}`).sort();
  const counted = counts.map(({ available, leased, delayed }) => `${available}+${leased + delayed}`).sort();
  if (onDisk.join() !== counted.join()) faults.push(`rows on disk: ${onDisk}; the queues count: ${counted}`);
  return faults;
}

/** The elements of only one of the two sets. */
const differing = (a: ReadonlySet<string>, b: ReadonlySet<string>): string[] =>
  [...a, ...b].filter((item) => a.has(item) !== b.has(item));
