import { X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CoreV1Api } from '@kubernetes/client-node';
import { connect, type GrpcOptions, type TaskMasterClient } from '@taskmaster/client';
import { partitionOf } from '@taskmaster/proto';
import { expect } from 'vitest';
import { root } from '../../../support/paths.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../../support/temporary-directory.ts';
import { ControlPlane } from '../../control-plane/control-plane.ts';
import { laterImage, presentImage } from '../../kubelet/containers/image.ts';
import { Kubelet } from '../../kubelet/kubelet.ts';
import { inNamespace } from '../../kubelet/network/pod-network.ts';
import { type LoadReport, PodLoad, summaryOf } from './pod-load.ts';

const CHART = join(root, 'deploy', 'k8s');
export const NAMESPACE = 'queues';
const RELEASE = 'tm';
export const NAME = 'tm-taskmaster';
const PORT = 7400;
const NODES = 'app.kubernetes.io/component=node';
const PARTITIONS = 32;
/** Few partitions, so that all of them move quickly, and a small reserve file. */
const MODEST = [
  `--set=node.config.engine.partitions=${PARTITIONS}`,
  '--set=node.config.store.reserveBytes=1048576',
  // In a test that fails, a drain must not wait for half an hour.
  '--set=node.drain.timeoutSeconds=120',
];

/** A namespace with the chart, on a control plane and machines of its own. */
export class ChartCluster implements AsyncDisposable {
  readonly #opened: AsyncDisposableStack;
  readonly plane: ControlPlane;
  readonly kubelet: Kubelet;
  readonly #users: readonly string[];
  readonly #directory: TemporaryDirectory;

  /** Starts machines without pods. */
  static async start(): Promise<ChartCluster> {
    await using opened = new AsyncDisposableStack();
    const plane = opened.use(await ControlPlane.start());
    const begun = performance.now();
    const log = (line: string): void => console.log(`${((performance.now() - begun) / 1000).toFixed(1)} s ${line}`);
    const later = await laterImage();
    const imageOf = (name: string) =>
      name === 'taskmaster:later' ? later : name.startsWith('taskmaster:') ? presentImage : undefined;
    const machines = Array.from({ length: 6 }, (_, index) => `machine-${index + 1}`);
    const kubelet = opened.use(await Kubelet.start(plane, { imageOf, log, nodes: machines }));
    const users = inNamespace((await kubelet.addUser()).namespace);
    await createNamespace(plane, NAMESPACE);
    const directory = opened.use(await temporaryDirectory());
    return new ChartCluster(opened.move(), plane, kubelet, users, directory);
  }

  private constructor(
    opened: AsyncDisposableStack,
    plane: ControlPlane,
    kubelet: Kubelet,
    users: readonly string[],
    directory: TemporaryDirectory,
  ) {
    this.#opened = opened;
    this.plane = plane;
    this.kubelet = kubelet;
    this.#users = users;
    this.#directory = directory;
  }

  /** Resolves when helm has sent everything; pods may not run yet. */
  install(...values: readonly string[]): Promise<string> {
    return this.helm('install', RELEASE, CHART, ...MODEST, ...values);
  }

  /** Installs another cluster: a release of the same name in another namespace. */
  async installIn(namespace: string, ...values: readonly string[]): Promise<void> {
    await createNamespace(this.plane, namespace);
    await this.plane.helm('install', RELEASE, CHART, ...MODEST, ...values, `--namespace=${namespace}`);
  }

  upgrade(...values: readonly string[]): Promise<string> {
    return this.helm('upgrade', RELEASE, CHART, ...MODEST, ...values);
  }

  helm(command: string, ...args: readonly string[]): Promise<string> {
    return this.plane.helm(command, ...args, `--namespace=${NAMESPACE}`);
  }

  kubectl(command: string, ...args: readonly string[]): Promise<string> {
    return this.plane.kubectl(command, ...args, `--namespace=${NAMESPACE}`);
  }

  /** Writes an object of Kubernetes into a file, for kubectl. */
  async fileOf(object: object): Promise<string> {
    const file = join(this.#directory.path, 'object.json');
    await writeFile(file, JSON.stringify(object));
    return file;
  }

  /** Resolves when all nodes and proxies are as they should be. */
  async rolledOut(): Promise<void> {
    for (const workload of [`statefulset/${NAME}`, `deployment/${NAME}-proxy`]) {
      await this.kubectl('rollout', 'status', workload, '--timeout=300s');
    }
  }

  /** How an operator calls a cluster: with its CA and token, if the chart has made them. */
  async credentials(namespace = NAMESPACE): Promise<Pick<GrpcOptions, 'tls' | 'token'>> {
    const token = await this.secret(`${NAME}-access`, 'token', namespace);
    if (token === '') return {};
    const certificate = new X509Certificate(await this.secret(`${NAME}-tls`, 'tls.crt', namespace));
    const caFile = join(this.#directory.path, `${namespace}.ca.crt`);
    await writeFile(caFile, await this.secret(`${NAME}-tls`, 'ca.crt', namespace));
    return { token, tls: { caFile, serverName: certificate.subject.replace('CN=', '') } };
  }

  /** Connects to the cluster's address for clients. */
  async connect(namespace = NAMESPACE): Promise<TaskMasterClient> {
    const endpoints = await this.kubelet.reachService(NAME, PORT, namespace);
    return connect({ endpoints, timeout: '60s', ...(await this.credentials(namespace)) });
  }

  /** Names of the members that are alive. */
  async members(): Promise<string[]> {
    await using client = await this.connect();
    const { members } = await client.cluster.members();
    const nodes = members.filter(({ role, alive }) => role === 'node' && alive);
    return nodes.map(({ name }) => name).toSorted();
  }

  /** The format of the data of a node, from its volume. */
  async dataFormatOf(pod: string): Promise<number> {
    const file = await this.kubelet.exec(pod, ['cat', '/data/taskmaster/format']);
    return (JSON.parse(file.split('\n')[0] ?? '') as { readonly format: number }).format;
  }

  /** The partition of a group. */
  partitionOf(group: string): number {
    return partitionOf(group, PARTITIONS);
  }

  /** Evicts a pod as a drain of its machine does. Rejects while the PodDisruptionBudget does not allow it. */
  async evict(pod: string): Promise<void> {
    const body = { metadata: { name: pod, namespace: NAMESPACE } };
    const core = (await this.plane.config()).makeApiClient(CoreV1Api);
    await core.createNamespacedPodEviction({ name: pod, namespace: NAMESPACE, body });
  }

  /** Names of the pods of nodes. */
  async nodePods(): Promise<string[]> {
    const names = await this.kubectl(
      'get',
      'pods',
      `--selector=${NODES}`,
      '--output=jsonpath={.items[*].metadata.name}',
    );
    return names
      .split(' ')
      .filter((name) => name !== '')
      .toSorted();
  }

  /** A part of a Secret. Empty if there is no such Secret. */
  async secret(name: string, key: string, namespace = NAMESPACE): Promise<string> {
    const path = `--output=jsonpath={.data.${key.replaceAll('.', '\\.')}}`;
    const get = ['get', 'secret', name, path, '--ignore-not-found', `--namespace=${namespace}`] as const;
    return Buffer.from(await this.plane.kubectl(...get), 'base64').toString();
  }

  /** `host:port` of the cluster for clients of this process. */
  reachClients(): Promise<string> {
    return this.kubelet.reachService(NAME, PORT, NAMESPACE);
  }

  /** Runs something under a load and prints how the load fared. Nothing acknowledged may be lost. */
  async underLoad(what: string, run: (load: PodLoad) => Promise<void>): Promise<LoadReport> {
    const { tls, token } = await this.credentials();
    const env = {
      ...(token !== undefined && { TASKMASTER_TOKEN: String(token) }),
      ...(tls?.caFile !== undefined && { TASKMASTER_TLS_CA: tls.caFile }),
      ...(tls?.serverName !== undefined && { TASKMASTER_TLS_SERVER_NAME: tls.serverName }),
    };
    const endpoint = `${this.kubelet.serviceAddress(NAME, NAMESPACE)}:${PORT}`;
    await using load = await PodLoad.start(this.#users, endpoint, env);
    const begun = performance.now();
    await run(load);
    await load.goOn();
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    const report = await load.stop();
    console.log(`${what}, ${seconds} s: ${summaryOf(report)}`);
    expect(report.verification).toMatchObject({ kind: 'kept' });
    return report;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

async function createNamespace(plane: ControlPlane, name: string): Promise<void> {
  await plane.kubectl('create', 'namespace', name);
  // Pods that ask for more rights than they need are refused.
  await plane.kubectl('label', 'namespace', name, 'pod-security.kubernetes.io/enforce=restricted');
}
