import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { nodeTroubles, queueTroubles } from '@taskmaster/proto';
import { unlimitedAccess } from '@taskmaster/server/access';
import { describe, expect, test } from 'vitest';
import { DEFAULT_MIX } from '../../../packages/cli/src/load/workload/operations.ts';
import { exitCodesHelp } from '../../../packages/cli/src/views/exit-codes.ts';
import { parseTrigger } from '../../../packages/proxy/src/scaler/trigger.ts';
import { isReady, type NodeHealth } from '../../../packages/server/src/http/health.ts';
import { type QueueReads, queuesApi } from '../../../packages/server/src/http/queues-api.ts';
import { httpStatus } from '../../../packages/server/src/http/reply.ts';
import { type ScheduleReads, schedulesApi } from '../../../packages/server/src/http/schedules-api.ts';
import { root } from '../../support/paths.ts';
import { documentAt, rowsOf } from './documents.ts';

const sourceOf = (path: string): string => readFileSync(join(root, 'packages', path), 'utf8');
const allIn = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, found = '']) => found);

/** The names in code in a column of the tables of a document. */
function namesIn(path: string, title: string): string[] {
  return rowsOf(documentAt(path)).flatMap((row) => allIn(row[title] ?? '', /`([^`]+)`/g));
}

describe('documents list all', () => {
  test('reasons of backups', () => {
    const [, union = ''] = /type BackupReason =(.*?);/s.exec(sourceOf('backup/src/format/errors.ts')) ?? [];
    expect(namesIn('docs/operate/backup.md', 'reason').toSorted()).toEqual(allIn(union, /'([A-Z_]+)'/g).toSorted());
  });

  test('reasons of load tests', () => {
    const sources = ['run-load.ts', 'join-reports.ts']
      .map((file) => sourceOf(`cli/src/commands/load/${file}`))
      .join('');
    const reasons = allIn(sources, /CommandFailedError\((?:reason \?\? )?'([A-Z_]+)'/g);
    expect(namesIn('docs/operate/load-testing.md', 'reason').toSorted()).toEqual(reasons.toSorted());
  });

  test('operations of a load, with their weights', () => {
    const told = rowsOf(documentAt('docs/operate/load-testing.md')).flatMap((row) => {
      const weight = row['default weight'];
      return weight === undefined ? [] : [[row.operation?.replaceAll('`', ''), Number(weight)]];
    });
    expect(told).toEqual(Object.entries(DEFAULT_MIX));
  });

  test('keys of a trigger of KEDA', () => {
    const told = namesIn('docs/operate/autoscaling.md', 'key');
    let keys: readonly string[] = [];
    try {
      parseTrigger({ unknown: '' });
    } catch (error) {
      keys = /the keys are (.*)$/.exec(String(error))?.[1]?.split(', ') ?? [];
    }
    expect(told.toSorted()).toEqual(keys.toSorted());
  });

  test('exit codes of the command line', () => {
    expect(documentAt('docs/reference/cli.md').text).toContain(exitCodesHelp);
  });
});

test('the page on the console has what may be wrong, the worst kinds of queues first', () => {
  expect(namesIn('docs/operate/console.md', 'kind')).toEqual([...queueTroubles.toReversed(), ...nodeTroubles]);
});

describe('the page on HTTP', () => {
  const path = 'docs/reference/http.md';

  test('has the states of a node, with the status of /readyz', () => {
    const kinds: Readonly<Record<NodeHealth['kind'], NodeHealth>> = {
      starting: { kind: 'starting' },
      joining: { kind: 'joining', problem: '' },
      waiting: { kind: 'waiting', problem: '' },
      skewed: { kind: 'skewed', problem: '' },
      serving: { kind: 'serving' },
      full: { kind: 'full' },
      failed: { kind: 'failed', cause: new Error('failed') },
      stopping: { kind: 'stopping' },
    };
    const told = rowsOf(documentAt(path)).flatMap(({ '`state`': state, HTTP }) =>
      state === undefined ? [] : [[state.replaceAll('`', ''), Number(HTTP)]],
    );
    expect(told).toEqual(Object.entries(kinds).map(([kind, health]) => [kind, isReady(health) ? 200 : 503]));
  });

  test('has the paths of nodes and proxies', () => {
    const pathsIn = (source: string): string[] => allIn(sourceOf(source), /\['(\/[\w/]*)',/g).toSorted();
    const served = (by: string): string[] =>
      rowsOf(documentAt(path))
        .flatMap((row) => (row[by] === 'yes' ? [row.path?.replaceAll('`', '') ?? ''] : []))
        .toSorted();
    const and = (paths: readonly string[]): string[] => [...paths, '/console/', '/rpc/METHOD'].toSorted();
    expect(served('node')).toEqual(and(pathsIn('node/src/http/node-routes.ts')));
    expect(served('proxy')).toEqual(and(pathsIn('proxy/src/proxy-http.ts')));
  });

  test('has the parameters of /api/queues', async () => {
    const { body } = await queuesApi({} as QueueReads, new URLSearchParams('unknown'), unlimitedAccess);
    const known = /known parameters: ([\w, ]+)/.exec(body)?.[1]?.split(', ');
    expect(namesIn(path, 'parameter').toSorted()).toEqual(known?.toSorted());
  });

  test('has the parameters of /api/schedules', async () => {
    const { body } = await schedulesApi({} as ScheduleReads, new URLSearchParams('unknown'), unlimitedAccess);
    const known = /known parameters: ([\w, ]+)/.exec(body)?.[1]?.split(', ');
    const [, told = ''] = /The parameters are (.*?)\.\n/s.exec(documentAt(path).text) ?? [];
    expect(allIn(told, /`(\w+)`(?: \(|$)/g).toSorted()).toEqual(known?.toSorted());
  });

  test('has the right status for each status of gRPC', () => {
    const nothing = { reason: '', message: '', metadata: {}, retryDelayMs: 0, items: [] };
    const told = rowsOf(documentAt(path)).flatMap(({ status: http, when = '' }): [string, number][] => {
      const [, grpc = ''] = /^([A-Z_]+), for example|^([A-Z_]+)$/.exec(when) ?? [];
      return grpc === '' ? [] : [[grpc, Number(http)]];
    });
    expect(told.length).toBeGreaterThan(2);
    for (const [grpc, http] of told) {
      const code = status[grpc as keyof typeof status];
      expect(httpStatus({ ...nothing, code }), grpc).toBe(http);
    }
  });
});

describe('documents name the right version of', () => {
  test('Node.js in the README of each package', () => {
    const wrong = globSync('packages/*/README.md', { cwd: root }).filter((path) => {
      const manifest = JSON.parse(readFileSync(join(root, path, '../package.json'), 'utf8'));
      const [, told] = /needs\s+Node\s+([\d.]+)\s+or\s+newer/.exec(documentAt(path).text) ?? [];
      return told !== undefined && told !== manifest.engines.node.replace('>=', '');
    });
    expect(wrong).toEqual([]);
  });

  test('pnpm', () => {
    const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(documentAt('CONTRIBUTING.md').text).toContain(`npx -y ${config.pnpm} install`);
  });
});
