import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hashOfToken } from '@taskmaster/proto';
import { expect, test } from 'vitest';
import { startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

test('pages and statistics over HTTP are for callers with rights, and health is for all', async () => {
  await using dir = await temporaryDirectory();
  const file = join(dir.path, 'access.yaml');
  const principal = (name: string): object => ({
    name,
    tokens: [hashOfToken(`token-of-${name}`)],
    rights: [{ groups: ['shop'], allow: ['read'] }],
  });
  await writeFile(file, JSON.stringify({ principals: [principal('reader')] }), { mode: 0o600 });
  await using node = await startNode({ flags: [`--access-file=${file}`] });
  const get = async (path: string, token?: string): Promise<number> => {
    const headers = token === undefined ? {} : { authorization: `Basic ${btoa(`anyone:${token}`)}` };
    return (await fetch(`http://127.0.0.1:${node.httpPort}${path}`, { headers })).status;
  };
  for (const path of ['/api/overview', '/api/queues', '/api/schedules']) {
    expect(await get(path)).toBe(401);
    expect(await get(path, 'another-token')).toBe(401);
    expect(await get(path, 'token-of-reader')).toBe(200);
  }
  for (const path of ['/livez', '/readyz', '/metrics']) expect(await get(path)).toBe(200);
});
