import { join } from 'node:path';
import { CoreV1Api, type KubeConfig, type V1Pod } from '@kubernetes/client-node';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { ObjectReader } from './api/object-reader.ts';
import { isAnswerWith, persist } from './api/persist.ts';
import { type WatchedObjects, watchObjects } from './api/watch-objects.ts';
import { Claims } from './claims.ts';
import { type Image, unpack } from './containers/image.ts';
import type { Mount } from './containers/mount.ts';
import { messageOf } from './message-of.ts';
import { GATEWAY, type PodLink, PodNetwork } from './network/pod-network.ts';
import { Switch, type SwitchTable } from './network/switch.ts';
import { PodWorker } from './pods/pod-worker.ts';
import { unsupportedIn } from './pods/supported.ts';
import { chooseNode } from './scheduler.ts';
import { Services } from './services.ts';

export interface KubeletOptions {
  /** Names of the nodes. Each is in a zone of its own. */
  readonly nodes?: readonly string[];
  /** The programs of an image; undefined if there is no such image. */
  readonly imageOf: (name: string) => Image | undefined;
  /** Receives what happens to the pods. */
  readonly log?: (line: string) => void;
}

/** Plays all machines of a Kubernetes cluster: schedules pods and runs their containers as processes of this machine. */
export class Kubelet implements AsyncDisposable {
  readonly #opened: AsyncDisposableStack;
  readonly #options: Required<KubeletOptions>;
  readonly #core: CoreV1Api;
  readonly #objects: ObjectReader;
  readonly #directory: TemporaryDirectory;
  readonly #network: PodNetwork;
  readonly #switch: Switch;
  readonly #api: string;
  /** Where addresses of the machine lead that pods may reach. */
  readonly #outside: SwitchTable[number][] = [];
  readonly #stopped = new AbortController();
  readonly #workers = new Map<string, { readonly worker: PodWorker; readonly running: Promise<void> }>();
  readonly #images = new Map<string, Promise<readonly Mount[]>>();
  readonly #binding = new Map<string, V1Pod>();
  /** What went wrong in the kubelet itself. A test must find it empty. */
  readonly problems: string[] = [];
  #services: Services | undefined;
  #claims: Claims | undefined;
  #pods: WatchedObjects<V1Pod> | undefined;
  #refreshing: Promise<void> | undefined;

  static async start(plane: ControlPlane, options: KubeletOptions): Promise<Kubelet> {
    await using opened = new AsyncDisposableStack();
    const config = await plane.config();
    const directory = opened.use(await temporaryDirectory());
    const network = opened.use(await PodNetwork.open());
    const switch_ = opened.use(await Switch.start(network.behind));
    const api = await switch_.wayOutTo(plane.apiPort);
    const kubelet = new Kubelet(opened.move(), options, config, directory, network, switch_, api);
    try {
      await kubelet.#start(config);
      return kubelet;
    } catch (error) {
      await kubelet[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(
    opened: AsyncDisposableStack,
    { nodes = ['machine-1', 'machine-2', 'machine-3'], imageOf, log = () => {} }: KubeletOptions,
    config: KubeConfig,
    directory: TemporaryDirectory,
    network: PodNetwork,
    switch_: Switch,
    api: string,
  ) {
    this.#opened = opened;
    this.#options = { nodes, imageOf, log };
    this.#core = config.makeApiClient(CoreV1Api);
    this.#objects = new ObjectReader(this.#core);
    this.#directory = directory;
    this.#network = network;
    this.#switch = switch_;
    this.#api = api;
  }

  /** Adds a machine to the pods' network that runs no pods: the place of a user. */
  addUser(): Promise<PodLink> {
    return this.#network.add();
  }

  /** The address of a Service. */
  serviceAddress(name: string, namespace = 'default'): string {
    const address = this.#services?.addressOf(namespace, name);
    if (address === undefined) throw new Error(`there is no Service ${name}`);
    return address;
  }

  /** `kill -9` of all processes of a pod. Its containers restart in the pod, as the restart policy says. */
  async kill(name: string): Promise<void> {
    await this.#workerOf(name).kill();
  }

  /** Runs a command in a pod. Resolves with its output, or rejects with it. */
  exec(name: string, command: readonly string[]): Promise<string> {
    return this.#workerOf(name).exec(command);
  }

  /** Writes changed Secrets and ConfigMaps into the volumes of all pods. A real kubelet does it within a minute. */
  async refreshVolumes(): Promise<void> {
    await Promise.all([...this.#workers.values()].map(({ worker }) => worker.refreshVolumes()));
  }

  /** What the first container of a pod has written to standard output. */
  outputOf(name: string): string {
    return this.#workerOf(name).output;
  }

  /** The address of a pod. */
  addressOf(name: string): string {
    return this.#workerOf(name).view.address ?? '';
  }

  /** Empties the volume of a claim, as if its disk were replaced. No pod may use it. */
  async loseVolume(claim: string, namespace = 'default'): Promise<void> {
    await this.#claims?.lose(namespace, claim);
  }

  /**
   * Exchanges the volumes of the claims of one name in two namespaces. Containers see it when they start: those that run keep
   * what they have.
   */
  async exchangeVolumes(claim: string, namespace: string, other: string): Promise<void> {
    await this.#claims?.exchange(claim, namespace, other);
  }

  /** Opens a port of a Service to this process. Returns an address of loopback. */
  async reachService(name: string, port: number, namespace = 'default'): Promise<string> {
    return this.#switch.wayInTo(`${this.serviceAddress(name, namespace)}:${port}`);
  }

  /** Opens a port of loopback outside to the pods, as that of a server beside the cluster. Returns its address for them. */
  async reachOutside(port: number): Promise<string> {
    const listen = `${GATEWAY}:${port}`;
    this.#outside.push({ listen, targets: [await this.#switch.wayOutTo(port)] });
    this.#refresh();
    await this.#refreshing;
    return listen;
  }

  async #start(config: KubeConfig): Promise<void> {
    for (const [index, name] of this.#options.nodes.entries()) await this.#addNode(name, `zone-${index + 1}`);
    this.#claims = this.#opened.use(
      await Claims.start(config, this.#core, join(this.#directory.path, 'volumes'), (error) => this.#failed(error)),
    );
    this.#services = this.#opened.use(await Services.watch(config, () => this.#refresh()));
    this.#refresh();
    const list = () => this.#core.listPodForAllNamespaces();
    this.#pods = this.#opened.use(
      await watchObjects(config, '/api/v1/pods', list, {
        changed: (pod) => this.#changed(pod),
        gone: (pod) => this.#workers.get(pod.metadata?.uid ?? '')?.worker.remove(),
      }),
    );
  }

  async #addNode(name: string, zone: string): Promise<void> {
    const labels = { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': zone };
    await this.#core.createNode({ body: { metadata: { name, labels } } });
    const resources = { cpu: '64', memory: '256Gi', pods: '200' };
    await this.#core.replaceNodeStatus({
      name,
      body: {
        metadata: { name, labels },
        status: {
          addresses: [{ type: 'InternalIP', address: GATEWAY }],
          capacity: resources,
          allocatable: resources,
          conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: new Date() }],
        },
      },
    });
  }

  #changed(pod: V1Pod): void {
    const { uid = '' } = pod.metadata ?? {};
    const known = this.#workers.get(uid);
    if (known) {
      known.worker.update(pod);
    } else if (pod.spec?.nodeName) {
      this.#binding.delete(uid);
      this.#run(pod, uid);
    } else if (!this.#binding.has(uid) && !pod.metadata?.deletionTimestamp) {
      void this.#bind(pod, uid).catch((error) => this.#failed(error));
    }
  }

  async #bind(pod: V1Pod, uid: string): Promise<void> {
    const others = [...(this.#pods?.list() ?? []), ...this.#binding.values()];
    const node = chooseNode(pod, this.#options.nodes, others);
    this.#binding.set(uid, { ...pod, spec: { containers: [], ...pod.spec, nodeName: node } });
    const { name = '', namespace = '' } = pod.metadata ?? {};
    const body = { metadata: { name, namespace, uid }, target: { apiVersion: 'v1', kind: 'Node', name: node } };
    try {
      await persist(() => this.#core.createNamespacedPodBinding({ name, namespace, body }), this.#stopped.signal);
    } catch (error) {
      // The pod is gone, or bound by a call that was not answered.
      if (!isAnswerWith(error, 404, 409)) throw error;
    }
  }

  #run(pod: V1Pod, uid: string): void {
    const { name = '' } = pod.metadata ?? {};
    const unsupported = unsupportedIn(pod);
    if (unsupported.length > 0) this.problems.push(`pod ${name} needs ${unsupported.join(', ')}`);
    const worker = new PodWorker(pod, {
      core: this.#core,
      objects: this.#objects,
      network: this.#network,
      switch: this.#switch,
      nodeAddress: GATEWAY,
      directory: join(this.#directory.path, 'pods', uid),
      filesOf: (image) => this.#filesOf(image),
      directoryOfClaim: (namespace, claim) => this.#claims?.directoryOf(namespace, claim),
      hostsLines: (namespace) => this.#services?.hostsLines(namespace) ?? [],
      serviceVariables: (namespace, links) => this.#services?.variables(namespace, links) ?? {},
      log: (line) => this.#options.log(`${name} ${line}`),
      failed: (error) => this.#failed(error),
    });
    const running = worker
      .run()
      .catch((error) => this.#failed(error))
      .finally(() => this.#workers.delete(uid));
    this.#workers.set(uid, { worker, running });
    worker.update(pod);
  }

  async #filesOf(name: string): Promise<readonly Mount[]> {
    const image = this.#options.imageOf(name);
    if (image === undefined) throw new Error(`there is no image ${name}`);
    const known = this.#images.get(name);
    if (known) return known;
    const directory = join(this.#directory.path, 'images', String(this.#images.size));
    const unpacked = unpack(image, directory);
    this.#images.set(name, unpacked);
    return unpacked;
  }

  /** Applies the present Services. Several changes in a row are applied as one. */
  #refresh(): void {
    this.#refreshing ??= Promise.resolve()
      .then(async () => {
        this.#refreshing = undefined;
        if (this.#services === undefined || this.#stopped.signal.aborted) return;
        await this.#switch.apply([...this.#services.table(this.#api), ...this.#outside]);
        for (const { worker } of this.#workers.values()) worker.writeHosts();
      })
      .catch((error) => this.#failed(error));
  }

  #workerOf(name: string): PodWorker {
    const found = [...this.#workers.values()].findLast(({ worker }) => worker.view.pod.metadata?.name === name);
    if (found === undefined) throw new Error(`pod ${name} does not run here`);
    return found.worker;
  }

  #failed(error: unknown): void {
    if (this.#stopped.signal.aborted) return;
    this.problems.push(messageOf(error));
    this.#options.log(`kubelet: ${error instanceof Error ? error.stack : String(error)}`);
  }

  /** Ends all pods at once. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    const workers = [...this.#workers.values()];
    for (const { worker } of workers) worker.remove();
    await Promise.all(workers.map(({ running }) => running));
    await this.#opened.disposeAsync();
  }
}
