import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { V1Container, V1Pod } from '@kubernetes/client-node';
import { eventually } from '../../../support/eventually.ts';
import { type Running, runProcess, startProcess } from '../../../support/processes/child-process.ts';
import { inNamespace } from '../network/pod-network.ts';
import { type Environment, expand } from './environment.ts';
import { IMAGE_MOUNTS, IMAGE_PATH } from './image.ts';
import type { Mount } from './mount.ts';

const ENTER = join(dirname(fileURLToPath(import.meta.url)), 'enter-container.sh');

export interface LaunchOptions {
  readonly pod: V1Pod;
  readonly container: V1Container;
  /** The pod's network namespace. */
  readonly namespace: string;
  readonly environment: Environment;
  readonly mounts: readonly Mount[];
  /** The files of the image. */
  readonly files: readonly Mount[];
  /** Where the root directory of the container is mounted. */
  readonly root: string;
}

/** A container that runs. */
export interface LaunchedContainer {
  readonly running: Running;
  /** Sends a signal to its command. As process 1 of the container, the command ignores signals that it does not handle. */
  signal(name: NodeJS.Signals): void;
  /** Runs a command inside. Resolves with its exit code. */
  exec(command: readonly string[], signal: AbortSignal): Promise<{ readonly code: number; readonly output: string }>;
}

/** User and groups of a container: those of its own security context, otherwise those of the pod. */
function userOf(pod: V1Pod, container: V1Container): { readonly user: number; readonly groups: number[] } {
  const context = { ...pod.spec?.securityContext, ...container.securityContext };
  const user = context.runAsUser ?? 0;
  if (context.runAsNonRoot && user === 0) throw new TypeError(`container ${container.name} must not run as root`);
  const more = [pod.spec?.securityContext?.fsGroup ?? [], pod.spec?.securityContext?.supplementalGroups ?? []].flat();
  return { user, groups: [context.runAsGroup ?? 0, ...more] };
}

/** Starts the process of a container. All processes of the container end with it. */
export async function launchContainer(options: LaunchOptions): Promise<LaunchedContainer> {
  const { pod, container, namespace, mounts, files, root } = options;
  const { user, groups } = userOf(pod, container);
  const environment = { PATH: IMAGE_PATH, HOSTNAME: hostnameOf(pod), ...options.environment };
  const command = [...(container.command ?? []), ...(container.args ?? [])].map((word) => expand(word, environment));
  if (command.length === 0) throw new TypeError(`container ${container.name} has no command`);
  const all: readonly Mount[] = [...IMAGE_MOUNTS, ...files, ...mounts];
  await mkdir(root, { recursive: true });
  const context = container.securityContext;
  const [enter = '', ...args] = [
    ...inNamespace(namespace),
    'unshare',
    '--uts',
    '--pid',
    '--fork',
    '--kill-child',
    '--',
    ENTER,
    hostnameOf(pod),
    root,
    context?.readOnlyRootFilesystem ? 'ro' : 'rw',
    String(user),
    groups.join(','),
    container.workingDir ?? '/',
    ...all.map(({ from, to, isReadOnly }) => `${isReadOnly ? 'ro' : 'rw'}:${from}:${to}`),
    '--',
    ...command,
  ];
  const running = await startProcess(enter, args, { env: { ...environment, PATH: withSystemPrograms(environment) } });
  const first = await eventually(() => childOf(running), { everyMs: 5 });
  return {
    running,
    signal(name) {
      if (first === undefined || !running.isRunning) return;
      try {
        process.kill(first, name);
      } catch (error) {
        // It has just ended.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    },
    async exec(inner, signal) {
      const target = ['--target', String(first), '--mount', '--uts', '--pid', '--net', '--root', '--wd', '--'];
      const identity = ['--reuid', String(user), '--regid', String(groups[0]), '--groups', groups.join(',')];
      const ended = await runProcess('nsenter', [...target, '/usr/bin/setpriv', ...identity, '--', ...inner], {
        env: { ...environment, PATH: withSystemPrograms(environment) },
        signal,
      });
      return { code: ended.code ?? 137, output: ended.stdout + ended.stderr };
    },
  };
}

/** The first process of a container: the child of the one that made its namespaces. Undefined if that has ended. */
async function childOf({ pid, isRunning }: Running): Promise<number | undefined> {
  if (!isRunning) return undefined;
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const [child] = children.trim().split(' ');
  if (!child) throw new Error(`process ${pid} has not made a container yet`);
  return Number(child);
}

/** The programs that make a container are found behind those of the container. */
const withSystemPrograms = ({ PATH = '' }: Environment): string => `${PATH}:/usr/sbin:/sbin`;

export const hostnameOf = (pod: V1Pod): string => pod.spec?.hostname ?? pod.metadata?.name ?? '';
