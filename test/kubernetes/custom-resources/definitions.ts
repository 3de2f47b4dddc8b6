import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProcess } from '../../support/processes/child-process.ts';
import { CACHE } from '../control-plane/programs.ts';

/** The Go module that names the versions. */
const MODULE = dirname(fileURLToPath(import.meta.url));

/** The definitions that the tests use, of those in the packages. */
const FILES = [
  'keda.sh_scaledobjects.yaml',
  'monitoring.coreos.com_prometheusrules.yaml',
  'monitoring.coreos.com_servicemonitors.yaml',
];

/** Definitions of other versions, or of other packages, are made anew. */
function directory(): string {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'types.go']) hash.update(readFileSync(join(MODULE, file)));
  return join(CACHE, `custom-resources-${hash.digest('hex').slice(0, 16)}`);
}

/** The packages that declare the types. */
function packages(): string[] {
  const imports = readFileSync(join(MODULE, 'types.go'), 'utf8').matchAll(/^\t_ "(.+)"$/gm);
  return Array.from(imports, ([, path = '']) => path);
}

/** Why the definitions are not here and cannot be made; undefined if they are or can. */
export async function whyNoDefinitions(): Promise<string | undefined> {
  if (existsSync(directory())) return undefined;
  if (spawnSync('go', ['version']).status !== 0) return 'it takes Go to make the definitions of custom resources';
  const { code, stderr } = await runProcess('go', ['mod', 'download'], { cwd: MODULE });
  return code === 0
    ? undefined
    : `the types of custom resources cannot be fetched: ${stderr.trim().split('\n').at(-1)}`;
}

/**
 * Paths of the CustomResourceDefinitions. They are generated from the types of their projects, with the projects' own tool, once
 * for each machine. This takes about a minute.
 */
export async function definitions(): Promise<string[]> {
  const made = directory();
  if (!existsSync(made)) {
    const draft = `${made}.${process.pid}`;
    await mkdir(draft, { recursive: true });
    const paths = packages().map((path) => `paths=${path}`);
    const args = ['-n', '10', 'go', 'tool', 'controller-gen', 'crd', ...paths, `output:crd:dir=${draft}`];
    const { code, stderr } = await runProcess('nice', args, { cwd: MODULE });
    if (code !== 0) throw new Error(`controller-gen ended with ${code}: ${stderr}`);
    // A run at the same time may have made the same.
    if (existsSync(made)) await rm(draft, { recursive: true });
    else await rename(draft, made);
  }
  return FILES.map((file) => join(made, file));
}
