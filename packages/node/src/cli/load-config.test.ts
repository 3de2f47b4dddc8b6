import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConfigSources, InvalidConfigError, loadConfig } from '@taskmaster/server/program';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { completeConfig, engineConfigOf } from '../config.ts';
import { nodeSettings } from './program.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'taskmaster-config-'));
});
afterAll(() => rmSync(dir, { recursive: true }));

function fileOf(content: string): string {
  const path = join(dir, 'node.yaml');
  writeFileSync(path, content);
  return path;
}

const from = (sources: Partial<ConfigSources>) => loadConfig(nodeSettings, { env: {}, flags: new Map(), ...sources });

function problemsOf(sources: Partial<ConfigSources>): readonly string[] {
  try {
    from(sources);
  } catch (error) {
    if (error instanceof InvalidConfigError) return error.problems;
    throw error;
  }
  return expect.unreachable('the settings were accepted');
}

describe('settings', () => {
  test('have defaults', () => {
    expect(from({})).toMatchObject({ dataDir: './data', host: '127.0.0.1', grpcPort: 7400, durability: 'synced' });
    expect(from({}).memory).toBe('auto');
  });

  test('come from the file, then the environment, then flags; later ones win', () => {
    const file = fileOf('grpcPort: 1\nhttpPort: 1\nhost: file\nengine: { cacheBytes: 8MiB }\n');
    const env = { TASKMASTER_GRPC_PORT: '2', TASKMASTER_HTTP_PORT: '2', HOME: '/root' };
    const config = from({ file, env, flags: new Map([['httpPort', '3']]) });
    expect(config).toMatchObject({ host: 'file', grpcPort: 2, httpPort: 3, engine: { cacheBytes: 8 * 1024 * 1024 } });
  });

  test('all have a description and one name everywhere', () => {
    for (const { about, env, flag } of nodeSettings.all) {
      expect(about).toMatch(/^\S.*\.$/);
      expect(env).toMatch(/^TASKMASTER_[A-Z_]+$/);
      expect(flag).toMatch(/^--[a-z-]+$/);
    }
    expect(nodeSettings.all.find(({ name }) => name === 'engine.cacheBytes')).toMatchObject({
      env: 'TASKMASTER_ENGINE_CACHE_BYTES',
      flag: '--engine-cache-bytes',
    });
  });

  test.each([
    ['64MiB', 64 * 1024 ** 2],
    ['2 GiB', 2 * 1024 ** 3],
    ['1048576', 1024 ** 2],
  ])('may say sizes as %s', (text, expected) => {
    expect(from({ flags: new Map([['store.blockCacheBytes', text]]) }).store.blockCacheBytes).toBe(expected);
  });
});

describe('wrong settings', () => {
  test('are reported all at once, with their origin', () => {
    const file = fileOf('durability: maybe\nengine: { cacheBytes: 64MB, cachebytes: 1 }\ngrpc: { reflection: 3 }\n');
    const env = { TASKMASTER_GRPC_PORT: '70000' };
    expect(problemsOf({ file, env, flags: new Map([['shutdownTimeoutMs', 'soon']]) })).toEqual([
      'grpcPort: must be a whole number from 0 to 65535, not "70000" (from TASKMASTER_GRPC_PORT)',
      'shutdownTimeoutMs: must be a number of ms from 0 to 600000, not "soon" (from --shutdown-timeout-ms)',
      `durability: must be one of synced, relaxed, not "maybe" (from ${file})`,
      `engine.cacheBytes: must be auto or a number of bytes (such as 64MiB) from 1MiB to 64GiB, not "64MB" (from ${file})`,
      `engine.cachebytes: unknown setting (in ${file}). Did you mean engine.cacheBytes?`,
      `grpc.reflection: must be true or false, not 3 (from ${file})`,
    ]);
  });

  test.each([
    ['empty', '', { TASKMASTER_DATA_DIR: '' }, 'dataDir: must not be empty'],
    [
      'contradictory',
      'engine: { minRefillTasks: 9, maxRefillTasks: 8 }',
      {},
      'engine.minRefillTasks: must not be more',
    ],
    ['a list instead of a section', 'engine: [1]', {}, 'engine: '],
    ['not YAML', 'a: [', {}, 'node.yaml: '],
    ['not a mapping', '- a', {}, 'must be a mapping'],
    [
      'a small file that aliases make large',
      'a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]',
      {},
      'alias count',
    ],
  ])('may be %s', (_how, content, env, problem) => {
    expect(problemsOf({ file: fileOf(content), env }).join('\n')).toContain(problem);
  });

  test.each([
    ['127.0.0.1', '"127.0.0.1" has no port; write 127.0.0.1:7400'],
    ['a:7400,b', '"b" has no port; write b:7400'],
    ['a:7400,', 'an address is empty'],
    ['::1', '"::1" is not of the form host:port'],
    ['http://a:7400', '"http://a:7400" is not of the form host:port'],
  ])('may be addresses such as %j', (text, problem) => {
    expect(problemsOf({ flags: new Map([['join', text]]) })).toEqual([`join: ${problem} (from --join)`]);
    expect(problemsOf({ env: { TASKMASTER_JOIN: text } })).toEqual([`join: ${problem} (from TASKMASTER_JOIN)`]);
    const file = fileOf(`join: ${JSON.stringify(text.split(','))}`);
    expect(problemsOf({ file })).toEqual([`join: ${problem} (from ${file})`]);
  });

  test.each([
    ['grpcport: 1', 'grpcport', 'grpcPort'],
    ['cacheBytes: 1', 'cacheBytes', 'engine.cacheBytes'],
    ['engine: { maxInflightRequest: 1 }', 'engine.maxInflightRequest', 'engine.maxInFlightRequests'],
    ['enginee: { cacheBytes: 1 }', 'enginee', undefined],
    ['colour: red', 'colour', undefined],
  ])('may have a name with a typing error: %s', (content, name, nearest) => {
    const file = fileOf(content);
    const hint = nearest === undefined ? '' : `. Did you mean ${nearest}?`;
    expect(problemsOf({ file })).toEqual([`${name}: unknown setting (in ${file})${hint}`]);
  });

  test('may be a variable with a typing error; variables with quite other names are ignored', () => {
    const others = {
      TASKMASTER_SERVICE_HOST: '10.0.0.1',
      TASKMASTER_PORT: 'tcp://10.0.0.1:7400',
      TASKMASTER_QUEUE: 'q',
    };
    expect(from({ env: others })).toEqual(from({}));
    expect(problemsOf({ env: { ...others, TASKMASTER_DATADIR: '/data' } })).toEqual([
      'TASKMASTER_DATADIR: unknown setting (in the environment). Did you mean TASKMASTER_DATA_DIR?',
    ]);
  });

  test('may be a file that is not there', () => {
    expect(problemsOf({ file: join(dir, 'nope.yaml') })[0]).toContain('cannot be read');
  });
});

test('relaxed durability carries its interval to the engine', () => {
  expect(engineConfigOf(completeConfig({}).config).durability).toEqual({ kind: 'synced' });
  const relaxed = completeConfig({ durability: 'relaxed', durabilityFlushIntervalMs: 50 }).config;
  expect(engineConfigOf(relaxed).durability).toEqual({ kind: 'relaxed', flushIntervalMs: 50 });
});
