import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { availableParallelism, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProcess } from '../../support/processes/child-process.ts';

/** The Go module that names the versions. */
const MODULE = dirname(fileURLToPath(import.meta.url));
/** Outside of the workspace, so that all clones share what takes minutes to build. */
export const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'taskmaster', 'kubernetes');

/** The package of each program. */
const PACKAGES = {
  etcd: 'go.etcd.io/etcd/server/v3',
  'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
  'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
  kubectl: 'k8s.io/kubernetes/cmd/kubectl',
  helm: 'helm.sh/helm/v3/cmd/helm',
} as const;

export type ProgramName = keyof typeof PACKAGES;
const NAMES = Object.keys(PACKAGES) as ProgramName[];

/** The version of Kubernetes in go.mod, for example `v1.34.4`. */
function kubernetesVersion(): string {
  const [, version] = /k8s\.io\/kubernetes (v\S+)/.exec(readFileSync(join(MODULE, 'go.mod'), 'utf8')) ?? [];
  if (version === undefined) throw new Error('go.mod does not require k8s.io/kubernetes');
  return version;
}

/** Programs of another version are built anew. */
const directory = (): string => join(CACHE, kubernetesVersion());

export const pathOf = (name: ProgramName): string => join(directory(), name);

/** Whether a program is there without a build. */
export const hasProgram = (name: ProgramName): boolean => existsSync(pathOf(name));

const missing = (): ProgramName[] => NAMES.filter((name) => !hasProgram(name));

/** Why the programs of a control plane are not here and cannot be built; undefined if they are or can. */
export function whyNoPrograms(): string | undefined {
  if (missing().length === 0) return undefined;
  const { status, error } = spawnSync('go', ['version']);
  return status === 0 ? undefined : `it takes Go to build Kubernetes: ${error?.message ?? 'go version failed'}`;
}

/**
 * Builds the missing programs of a control plane, once for each machine. It takes about eight minutes on two processors and
 * fetches Go modules only.
 */
export async function buildPrograms(): Promise<void> {
  await mkdir(directory(), { recursive: true });
  for (const name of missing()) {
    const begun = performance.now();
    console.log(`building ${name} in ${directory()} (once, minutes)`);
    const draft = `${pathOf(name)}.${process.pid}`;
    // kubectl and helm ask the server for its version.
    const flags = `-s -w -X k8s.io/component-base/version.gitVersion=${kubernetesVersion()}`;
    const jobs = `-p=${availableParallelism()}`;
    const args = ['-n', '10', 'go', 'build', jobs, '-trimpath', '-ldflags', flags, '-o', draft, PACKAGES[name]];
    const { code, stderr } = await runProcess('nice', args, { cwd: MODULE });
    if (code !== 0) throw new Error(`go build of ${name} ended with ${code}: ${stderr}`);
    await rename(draft, pathOf(name));
    console.log(`built ${name} in ${((performance.now() - begun) / 1000).toFixed(0)} s`);
  }
}
