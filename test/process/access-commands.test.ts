import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from '@taskmaster/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clientCli } from '../support/paths.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { type RunningNode, startNode } from '../support/processes/start-node.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/* The commands about rules of access, from the token to the answer. */

const opened = new AsyncDisposableStack();
let node: RunningNode;
let tokens: { readonly shop: string; readonly operator: string; readonly backup: string };

const run = (args: readonly string[], token?: string) =>
  runProcess(process.execPath, [clientCli, ...args, ...(node === undefined ? [] : ['-e', node.endpoint])], {
    env: { ...process.env, ...(token !== undefined && { TASKMASTER_TOKEN: token }) },
  });

beforeAll(async () => {
  const directory = opened.use(await temporaryDirectory());
  const make = async () =>
    JSON.parse((await run(['access', 'token', '--json'])).stdout) as Record<'token' | 'hash', string>;
  const [shop, operator, backup] = [await make(), await make(), await make()];
  tokens = { shop: shop.token, operator: operator.token, backup: backup.token };
  const accessFile = join(directory.path, 'access.yaml');
  const rules = {
    principals: [
      { name: 'shop', tokens: [shop.hash], rights: [{ groups: ['shop'], allow: ['enqueue', 'read'] }] },
      { name: 'operator', tokens: [operator.hash], rights: [{ allow: ['manage-cluster'] }] },
      { name: 'backup-job', tokens: [backup.hash], rights: [{ allow: ['back-up'] }] },
    ],
  };
  writeFileSync(accessFile, JSON.stringify(rules), { mode: 0o600 });
  node = opened.use(await startNode({ flags: ['--engine-partitions=8', `--access-file=${accessFile}`] }));
});
afterAll(() => opened.disposeAsync());

describe('taskmaster', () => {
  test('whoami shows principal, credential and rights', async () => {
    const { stdout, code } = await run(['whoami'], tokens.shop);
    expect(code).toBe(0);
    expect(stdout).toMatch(/principal +shop/);
    expect(stdout).toMatch(/credential +token/);
    expect(stdout).toMatch(/may +enqueue, read on "shop"/);
    const json = JSON.parse((await run(['whoami', '--json'], tokens.operator)).stdout);
    expect(json).toMatchObject({ principal: 'operator', grants: [{ groups: [], rights: ['manage-cluster'] }] });
  });

  test('whoami says why a token is refused', async () => {
    const { stderr, code } = await run(['whoami'], 'tm_wrong');
    expect([code, stderr]).toEqual([1, expect.stringContaining('the token is not valid')]);
  });

  test.each([
    ['shop', ['enqueue', 'shop'], 0, 'yes: shop may enqueue on the group shop'],
    ['shop', ['lease', 'shop'], 1, 'no: shop may not lease on the group shop'],
    ['shop', ['manage-cluster'], 1, 'no: shop may not manage-cluster on the cluster'],
    ['shop', ['back-up'], 1, 'no: shop may not back-up on the cluster'],
    ['operator', ['back-up'], 0, 'yes: operator may back-up on the cluster'],
    ['operator', ['read', 'shop', '--principal', 'shop'], 0, 'yes: shop may read on the group shop'],
  ] as const)('access check, as %s: %j', async (name, args, expected, text) => {
    const { stdout, code } = await run(['access', 'check', ...args], tokens[name]);
    expect([code, stdout.trim()]).toEqual([expected, text]);
  });

  test('a principal that may only back up makes a backup, and may do nothing else', async () => {
    await using directory = await temporaryDirectory();
    const place = join(directory.path, 'backup');
    const { code, stderr } = await run(['backup', 'create', '--to', place], tokens.backup);
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('PERMISSION_DENIED')]);
    expect((await runProcess(process.execPath, [clientCli, 'backup', 'verify', place])).code).toBe(0);
    for (const args of [
      ['access', 'check', 'read', 'shop', '--principal', 'shop'],
      ['enqueue', 'shop#q', 'x'],
      ['peek', 'shop#q'],
      ['reset-leases', 'shop#q'],
    ]) {
      const refused = await run(args, tokens.backup);
      expect([refused.code, refused.stderr], args[0]).toEqual([1, expect.stringMatching(/may not|PERMISSION_DENIED/)]);
    }
    const refused = await run(['backup', 'create', '--to', join(directory.path, 'other')], tokens.shop);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('back-up')]);
  });

  test('access token --hash prints the hash of a token', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'token');
    writeFileSync(file, `${tokens.shop}\n`);
    const made = await runProcess('sh', [
      '-c',
      `"$0" "$1" access token --hash < "$2"`,
      process.execPath,
      clientCli,
      file,
    ]);
    expect(made.stdout).toMatch(/^sha256:[0-9a-f]{64}\n$/);
  });

  test('the client says the same, and reports refusals by class', async () => {
    await using client = await connect({ endpoints: node.endpoint, token: tokens.shop });
    const identity = await client.whoAmI({ questions: [{ right: 'enqueue', group: 'shop' }, { right: 'lease' }] });
    expect(identity).toMatchObject({ principal: 'shop', credential: 'token', allowed: [true, false], hasRules: true });
    await expect(client.queue('other#x').enqueue(1)).rejects.toMatchObject({ name: 'PermissionDeniedError' });
    await expect(
      connect({ endpoints: node.endpoint, token: 'tm_no' }).then((wrong) => wrong.whoAmI()),
    ).rejects.toMatchObject({
      name: 'UnauthenticatedError',
    });
  });
});
