import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { earlySettings } from './early-settings.ts';

const NAMES = ['memory', 'engine.cacheBytes'];
let dir: string;
let file: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'taskmaster-early-'));
  file = join(dir, 'node.yaml');
});
afterAll(() => rmSync(dir, { recursive: true }));

interface Case {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly yaml?: string;
}

test.each<[string, Case, Readonly<Record<string, string>>]>([
  ['without any', { args: ['serve', '--json'], env: { HOME: '/root' } }, {}],
  ['flags with their values behind them', { args: ['serve', '--memory', '512MiB'] }, { memory: '512MiB' }],
  [
    'flags with equals signs',
    { args: ['--memory=1', '--engine-cache-bytes=8MiB'] },
    { memory: '1', 'engine.cacheBytes': '8MiB' },
  ],
  ['the last of two flags', { args: ['--memory=1', '--memory', '2'] }, { memory: '2' }],
  ['no flags behind the end of flags', { args: ['--', '--memory=1'] }, {}],
  ['variables', { env: { TASKMASTER_ENGINE_CACHE_BYTES: '8MiB' } }, { 'engine.cacheBytes': '8MiB' }],
  ['flags rather than variables', { args: ['--memory=1'], env: { TASKMASTER_MEMORY: '2' } }, { memory: '1' }],
  [
    'lines of a file',
    { yaml: 'memory: 1GiB\nengine: { cacheBytes: 1048576 }\n' },
    { memory: '1GiB', 'engine.cacheBytes': '1048576' },
  ],
  ['variables rather than lines', { yaml: 'memory: 1GiB\n', env: { TASKMASTER_MEMORY: '2' } }, { memory: '2' }],
  ['nothing of a file that is not YAML', { yaml: 'memory: [' }, {}],
  ['nothing of a file without settings', { yaml: '' }, {}],
  ['nothing of a file with another shape', { yaml: 'engine: 3\n' }, {}],
])('%s', async (_what, { args = [], env = {}, yaml }, expected) => {
  if (yaml !== undefined) writeFileSync(file, yaml);
  const all = yaml === undefined ? args : ['--config', file, ...args];
  expect(Object.fromEntries(await earlySettings(NAMES, { args: all, env }))).toEqual(expected);
});

test('a file that is not there counts as empty', async () => {
  const args = [`--config=${join(dir, 'nope.yaml')}`, '--memory=1'];
  expect(Object.fromEntries(await earlySettings(NAMES, { args, env: {} }))).toEqual({ memory: '1' });
});
