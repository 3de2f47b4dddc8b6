import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/paths.ts';
import { type Ended, runProcess } from '../support/processes/child-process.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

interface Violation {
  readonly rule: { readonly name: string };
  readonly from: string;
}

/** Checks folders of a directory with the rules of this repository. */
function checkImports(cwd: string, folders: readonly string[], outputType: 'err-long' | 'json'): Promise<Ended> {
  const command = join(root, 'node_modules', 'dependency-cruiser', 'bin', 'dependency-cruiser.mjs');
  const rules = join(root, '.dependency-cruiser.mjs');
  const args = [command, ...folders, '--config', rules, '--output-type', outputType, '--no-cache'];
  return runProcess(process.execPath, args, { cwd });
}

test('imports keep the rules of .dependency-cruiser.mjs', { timeout: 120_000 }, async () => {
  const { code, stdout, stderr } = await checkImports(
    root,
    ['packages', 'test', 'bench', 'examples', 'scripts'],
    'err-long',
  );
  expect(stderr).toBe('');
  expect(stdout).toContain('no dependency violations found');
  // Without a parser for TypeScript it would check few files and report no fault.
  expect(Number(/\((\d+) modules/.exec(stdout)?.[1])).toBeGreaterThan(700);
  expect(code).toBe(0);
});

test('the rules report every violation, and nothing else', { timeout: 120_000 }, async () => {
  await using directory = await temporaryDirectory();
  const files: Record<string, string> = {
    // Files without violations.
    'packages/node/src/node.ts': "import './cli/run.ts'; import '../../proxy/src/proxy.ts';",
    'packages/node/src/cli/run.ts': "import type { Node } from '../node-types.ts'; export let node: Node;",
    'packages/node/src/node-types.ts': 'export type Node = string;',
    'packages/node/src/cluster/right.test.ts': "import '../testing/support.ts'; import '../store/rocks.ts';",
    'packages/engine/src/ports/store.ts': "import type { B } from './write-batch.ts'; export type A = B;",
    'packages/engine/src/ports/write-batch.ts': "import type { A } from './store.ts'; export type B = A;",
    'packages/node/src/testing/support.ts': "import '../node.ts';",
    'packages/node/src/store/rocks.ts': '',
    'packages/proxy/src/proxy.ts': '',
    // Files with a violation, each with the name of the rule that it violates.
    'packages/proto/src/package-proto.ts': "import '../../client/src/index.ts';",
    'packages/client/src/index.ts': '',
    'packages/server/src/ports/package-server.ts':
      "import type { Node } from '../../../node/src/node-types.ts'; let n: Node;",
    'packages/client/src/values/layer-client-values.ts': "export const api = () => import('../api/client.ts');",
    'packages/client/src/api/client.ts': '',
    'packages/engine/src/domain/layer-engine-domain.ts': "export * from '../engine.ts';",
    'packages/engine/src/engine.ts': "import './queues/queue.ts';",
    'packages/engine/src/queues/queue.ts': "import '../state.ts';",
    'packages/engine/src/state.ts': '',
    'packages/node/src/cluster/apart-cluster-store.ts': "import '../store/rocks.ts';",
    'packages/server/src/http/apart-http-grpc.ts': "import '../grpc/server.ts';",
    'packages/server/src/grpc/server.ts': '',
    'packages/node/src/elsewhere/known-folder.ts': "import '../http/tasks.ts';",
    'packages/node/src/http/tasks.ts': '',
    'packages/node/src/http/testing-folders.ts': "import '../testing/support.ts';",
    'packages/proto/src/resolvable.ts': "import './missing.ts';",
    'packages/node/src/http/no-cycles.ts': "import type { C } from './other.ts'; export type D = C;",
    'bench/no-cycles.ts': "import './rows.ts';",
    'bench/rows.ts': "import './no-cycles.ts';",
    'packages/node/src/http/other.ts': "import type { D } from './no-cycles.ts'; export type C = D;",
  };
  for (const [file, text] of Object.entries(files)) {
    await mkdir(join(directory.path, dirname(file)), { recursive: true });
    await writeFile(join(directory.path, file), text);
  }
  const { stdout } = await checkImports(directory.path, ['packages', 'bench'], 'json');
  const { violations } = (JSON.parse(stdout) as { summary: { violations: Violation[] } }).summary;
  const found = violations.map(({ rule, from }) => `${rule.name} in ${from}`);
  const isNamedAfterARule = /\/(package|layer|apart|known|testing|resolvable|no)(-[a-z-]+)?\.ts$/;
  const expected = Object.keys(files)
    .filter((file) => isNamedAfterARule.test(file))
    .map((file) => `${/([a-z-]+)\.ts$/.exec(file)?.[1]} in ${file}`);
  expect(found.toSorted()).toEqual(expected.toSorted());
});
