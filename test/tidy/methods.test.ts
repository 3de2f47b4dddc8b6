import { type MethodKey, methodKeys, methodName } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { productSources } from './product-sources.ts';

/**
 * A new RPC needs its two .proto files, a row in methods.ts, a parser or a handler, a method of the client, and a command. What
 * it does stands in the engine and its commands, which are not counted.
 */
const MOST_FILES = 6;

/** The files of methods that travel on streams, are joined, gathered or shown on pages, or have payloads. May only shrink. */
const MORE: { readonly [K in MethodKey]?: number } = {
  updateTasks: 24,
  leaseTasks: 25,
  batchUpdateTasks: 7,
  batchLeaseTasks: 7,
  waitForTasks: 19,
  readEvents: 18,
  listQueues: 14,
  getQueueStats: 15,
  peekTasks: 7,
  getTasks: 7,
  putSchedule: 7,
  listSchedules: 14,
  subscribe: 7,
  backupPartition: 15,
};

const NOT_COUNTED = /^packages\/engine\/|\/domain\//;

/** Matches a text that names the method, one of its messages, or a function for it among others. */
function namesMethod(key: MethodKey): RegExp {
  const name = methodName(key);
  const named = String.raw`\bmethods\.${key}\b|\b(?:parse)?${name}(?:Request|Response)?\b`;
  const served = String.raw`^\s*(?:async )?${key}(?:\(|: (?:async )?[({])(?!['A-Z])`;
  return new RegExp(`${named}|${served}`, 'm');
}

test('few files name an RPC', async () => {
  const files = [...(await productSources())].filter(([file]) => !NOT_COUNTED.test(file));
  const tooMany: string[] = [];
  for (const key of methodKeys) {
    const pattern = namesMethod(key);
    const naming = files.filter(([, text]) => pattern.test(text)).map(([file]) => file);
    const most = MORE[key] ?? MOST_FILES;
    if (naming.length > most)
      tooMany.push(`${key} is named in ${naming.length} files, at most ${most}: ${naming.join(' ')}`);
    expect(naming, key).toContain('packages/proto/src/methods.ts');
  }
  expect(tooMany).toEqual([]);
});
