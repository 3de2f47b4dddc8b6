import { expect, test } from 'vitest';
import type { ServerStatus } from '../cluster/servers.ts';
import { drawLine } from './draw.ts';

function serversIn(...servers: ServerStatus[]): string | undefined {
  const counts = { found: 0, indexed: 0, skipped: 0, dead: 0, silent: 0, retried: 0 };
  const status = { ...counts, elapsedMs: 0, stages: [], expected: undefined, finished: false, servers, workers: [] };
  return drawLine(status).split('  |  ').at(-1);
}

test.each<[string, Partial<ServerStatus>, string]>([
  ['that serves', { up: true }, 'n 3'],
  ['that gets its share', { up: true, member: { state: 'active', held: 1, wanted: 3 } }, 'n 1→3'],
  ['that was lost', { up: false }, 'n 3 down'],
  ['that has been started just now', { up: false, isNew: true, member: undefined }, 'n starting'],
  ['that joins', { up: false, isNew: true, member: { state: 'joining', held: 0, wanted: 0 } }, 'n 0 starting'],
  ['that has left', { up: false, member: { state: 'left', held: 0, wanted: 0 } }, 'n left'],
])('a node %s', (_how, status, expected) => {
  const member = { state: 'active', held: 3, wanted: 3 } as const;
  expect(serversIn({ name: 'n', up: true, isNew: false, member, ...status })).toBe(expected);
});
