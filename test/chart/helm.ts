import { spawnSync } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { hasProgram, pathOf } from '../kubernetes/control-plane/programs.ts';
import { runProcess } from '../support/processes/child-process.ts';
import { chart } from './schema.ts';

/** The program: the one that was built here, that of the PATH, or one in a folder where Go installs programs. */
function findHelm(): string | undefined {
  const { GOBIN, GOPATH } = process.env;
  const folders = [GOBIN, ...(GOPATH ?? join(homedir(), 'go')).split(':').map((path) => join(path, 'bin'))];
  const installed = folders.flatMap((folder) => (folder ? [join(folder, 'helm')] : []));
  const candidates = [...(hasProgram('helm') ? [pathOf('helm')] : []), 'helm', ...installed];
  return candidates.find((path) => spawnSync(path, ['version', '--short']).status === 0);
}

const helm = findHelm();

/** Why helm cannot render here; undefined if it can. */
export const whyNoHelm = helm === undefined ? 'install helm, or let npm run test:kubernetes build it' : undefined;

/** An object of Kubernetes. */
export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

export interface Rendered {
  readonly code: number | undefined;
  readonly stderr: string;
  readonly objects: readonly KubernetesObject[];
}

/** Lints the chart with values like `--set=replicaCount=1`. */
export async function lint(
  values: readonly string[],
): Promise<{ readonly code: number | undefined; readonly output: string }> {
  const { code, stdout, stderr } = await runProcess(helm ?? '', [
    'lint',
    '--strict',
    '--kube-version=1.34.0',
    chart,
    ...values,
  ]);
  return { code, output: stdout + stderr };
}

/** Renders the chart without a cluster. */
export async function render(values: readonly string[] = [], release = 'tm'): Promise<Rendered> {
  const args = ['template', release, chart, '--namespace=queues', '--kube-version=1.34.0', ...values];
  const { code, stdout, stderr } = await runProcess(helm ?? '', args);
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as KubernetesObject | null);
  return { code, stderr, objects: objects.filter((object) => object !== null) };
}
