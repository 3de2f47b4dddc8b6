import { TroubleSeverity } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { type NodeState, NodeTroubles } from './node-troubles.ts';

const NOW = 1_700_000_000_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const GIB = 2 ** 30;

const fine: NodeState = {
  health: { kind: 'serving' },
  space: { freeBytes: 100 * GIB, fullBelowBytes: GIB },
  expiresAt: NOW + 90 * DAY,
  reloadsFailed: [],
  figures: { backedUpAt: NOW - HOUR, backupFailure: undefined, schedulesAhead: 0 },
};

test('nothing is wrong with a node that has all it needs, or that knows nothing yet', () => {
  expect(new NodeTroubles().look(fine, NOW)).toEqual([]);
  const unknown = {
    health: fine.health,
    space: undefined,
    expiresAt: undefined,
    reloadsFailed: [],
    figures: undefined,
  };
  expect(new NodeTroubles().look(unknown, NOW)).toEqual([]);
});

test.each<[string, Partial<NodeState>, string, 'WARNING' | 'CRITICAL', RegExp, number]>([
  ['does not serve', { health: { kind: 'failed', cause: new Error() } }, 'node-not-serving', 'CRITICAL', /write/, 0],
  ['has a full disk', { health: { kind: 'full' } }, 'disk', 'CRITICAL', /refused/, 0],
  ['has too little space', { space: { freeBytes: GIB / 2, fullBelowBytes: GIB } }, 'disk', 'CRITICAL', /0\.5 GiB/, 0],
  ['will have too little', { space: { freeBytes: 2 * GIB, fullBelowBytes: GIB } }, 'disk-nearly', 'WARNING', /2\.0/, 0],
  ['has a certificate that ends', { expiresAt: NOW + 10 * DAY }, 'certificate', 'WARNING', /expires at/, -4 * DAY],
  ['has one that has ended', { expiresAt: NOW - DAY }, 'certificate', 'CRITICAL', /has expired/, -15 * DAY],
  ['cannot read changed files', { reloadsFailed: ['tls'] }, 'reload', 'WARNING', /tls/, 0],
  [
    'has an old backup',
    { figures: { backedUpAt: NOW - 30 * HOUR, backupFailure: undefined, schedulesAhead: 0 } },
    'backup',
    'WARNING',
    /began at 2023/,
    -4 * HOUR,
  ],
  [
    'was told of a failed backup',
    {
      figures: {
        backedUpAt: NOW - HOUR,
        backupFailure: { at: NOW - 2 * HOUR, problem: 'the bucket is gone' },
        schedulesAhead: 0,
      },
    },
    'backup-failed',
    'WARNING',
    /^the last backup failed: the bucket is gone$/,
    -2 * HOUR,
  ],
  [
    'was ahead of time',
    { figures: { backedUpAt: undefined, backupFailure: undefined, schedulesAhead: 2 } },
    'schedules-late',
    'WARNING',
    /2 schedules/,
    0,
  ],
])('a node has trouble if it %s', (_what, change, kind, severity, message, since) => {
  const [found, ...others] = new NodeTroubles().look({ ...fine, ...change }, NOW);
  expect(others).toEqual([]);
  expect(found).toMatchObject({ kind, severity: TroubleSeverity[`TROUBLE_SEVERITY_${severity}`], queue: '' });
  expect(found?.message).toMatch(message);
  expect(found?.sinceUnixMs).toBe(NOW + since);
  // What only a look can find may have begun before the first one.
  expect(found?.sinceIsExact).toBe(since !== 0);
});

test('a trouble lasts since the look that has found it first, until one does not find it', () => {
  const troubles = new NodeTroubles();
  const full = { ...fine, health: { kind: 'full' as const } };
  troubles.look(fine, NOW);
  troubles.look(full, NOW + 10);
  expect(troubles.look(full, NOW + 20)).toMatchObject([{ sinceUnixMs: NOW + 10, sinceIsExact: true }]);
  troubles.look(fine, NOW + 30);
  expect(troubles.look(full, NOW + 40)).toMatchObject([{ sinceUnixMs: NOW + 40 }]);
});
