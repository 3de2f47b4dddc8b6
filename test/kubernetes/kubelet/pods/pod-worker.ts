import { renameSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CoreV1Api, V1Container, V1Pod } from '@kubernetes/client-node';
import { type ObjectReader, textsOf } from '../api/object-reader.ts';
import { isAnswerWith, persist } from '../api/persist.ts';
import { Container, type RestartPolicy } from '../containers/container.ts';
import { hostnameOf, type LaunchedContainer, launchContainer } from '../containers/container-process.ts';
import { type EnvironmentSources, environmentOf, MissingSource } from '../containers/environment.ts';
import type { Mount } from '../containers/mount.ts';
import { messageOf } from '../message-of.ts';
import type { PodLink, PodNetwork } from '../network/pod-network.ts';
import type { Switch } from '../network/switch.ts';
import { type PodView, podStatus } from './pod-status.ts';
import { StatusWriter } from './status-writer.ts';
import { type MountedVolume, refreshVolumes, type VolumeSources, writeVolumes } from './volumes.ts';

const AGAIN_MS = 300;
const DEFAULT_GRACE_SECONDS = 30;

export interface PodDeps {
  readonly core: CoreV1Api;
  readonly objects: ObjectReader;
  readonly network: PodNetwork;
  readonly switch: Switch;
  readonly nodeAddress: string;
  /** A directory for this pod alone. */
  readonly directory: string;
  /** The files of an image. Rejects if there is no such image. */
  filesOf(image: string): Promise<readonly Mount[]>;
  directoryOfClaim(namespace: string, name: string): string | undefined;
  /** Names of Services and pods, as lines of a hosts file. */
  hostsLines(namespace: string): readonly string[];
  serviceVariables(namespace: string, enableServiceLinks: boolean): Readonly<Record<string, string>>;
  log(line: string): void;
  /** Something went wrong that a pod cannot cause. */
  failed(error: unknown): void;
}

/** Runs one pod from its binding to its deletion. */
export class PodWorker {
  readonly #deps: PodDeps;
  readonly #pod: V1Pod;
  readonly #gone = new AbortController();
  readonly #deletion = Promise.withResolvers<void>();
  readonly #status: StatusWriter;
  readonly #initContainers: readonly Container[];
  readonly #containers: readonly Container[];
  readonly #startedAt = new Date();
  #link: PodLink | undefined;
  #volumes: ReadonlyMap<string, MountedVolume> = new Map();
  #graceSeconds: number | undefined;

  constructor(pod: V1Pod, deps: PodDeps) {
    this.#pod = pod;
    this.#deps = deps;
    this.#status = new StatusWriter({
      core: deps.core,
      pod,
      statusNow: (before) => podStatus(this.view, before, new Date()),
      signal: this.#gone.signal,
      failed: deps.failed,
    });
    const policy = (pod.spec?.restartPolicy ?? 'Always') as RestartPolicy;
    const initPolicy = policy === 'Always' ? 'OnFailure' : policy;
    this.#initContainers = (pod.spec?.initContainers ?? []).map((spec) => this.#newContainer(spec, initPolicy));
    this.#containers = (pod.spec?.containers ?? []).map((spec) => this.#newContainer(spec, policy));
  }

  get view(): PodView {
    return {
      pod: this.#pod,
      address: this.#link?.address,
      nodeAddress: this.#deps.nodeAddress,
      startedAt: this.#startedAt,
      initContainers: this.#initContainers.map(({ view }) => view),
      containers: this.#containers.map(({ view }) => view),
    };
  }

  get isTerminating(): boolean {
    return this.#graceSeconds !== undefined;
  }

  /** The API server shows the pod with these properties now. */
  update(pod: V1Pod): void {
    if (pod.metadata?.deletionTimestamp === undefined || this.isTerminating) return;
    this.#graceSeconds = pod.metadata.deletionGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
    this.#deletion.resolve();
  }

  /** The API server has no such pod any more: its processes must not go on. */
  remove(): void {
    this.#gone.abort();
    this.#graceSeconds ??= 0;
    this.#deletion.resolve();
  }

  /** `kill -9` of all its processes. */
  async kill(): Promise<void> {
    await Promise.all(this.#containers.map((container) => container.kill()));
  }

  /** What its first container has written to standard output. */
  get output(): string {
    return this.#containers[0]?.output ?? '';
  }

  /** Runs a command in its first container. Resolves with its output, or rejects with it. */
  async exec(command: readonly string[]): Promise<string> {
    const ended = await this.#containers[0]?.exec(command, this.#gone.signal);
    if (ended?.code !== 0) throw new Error(`${command.join(' ')} ended with ${ended?.code}: ${ended?.output.trim()}`);
    return ended.output;
  }

  /** Resolves when the pod is gone, or is removed here. */
  async run(): Promise<void> {
    const { log, network, directory, core } = this.#deps;
    const running = this.#runContainers();
    await this.#deletion.promise;
    const begun = performance.now();
    log('stops');
    const graceSeconds = this.#graceSeconds ?? DEFAULT_GRACE_SECONDS;
    const all = [...this.#initContainers, ...this.#containers];
    await Promise.all(all.map((container) => container.stop(graceSeconds)));
    await running;
    log(`has stopped after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const { name = '', namespace = '', uid } = this.#pod.metadata ?? {};
    if (!this.#gone.signal.aborted) {
      this.#status.changed();
      await this.#status.written();
      const body = { gracePeriodSeconds: 0, preconditions: { uid } };
      await persist(() => core.deleteNamespacedPod({ name, namespace, body }), this.#gone.signal).catch((error) => {
        if (!this.#gone.signal.aborted && !isAnswerWith(error, 404, 409)) throw error;
      });
    }
    this.#gone.abort();
    if (this.#link) await network.remove(this.#link);
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Writes the names that the pod resolves. */
  writeHosts(): void {
    if (this.#link === undefined || this.#gone.signal.aborted) return;
    const { namespace = '' } = this.#pod.metadata ?? {};
    const lines = ['127.0.0.1 localhost', `${this.#link.address} ${hostnameOf(this.#pod)}`];
    const text = [...lines, ...this.#deps.hostsLines(namespace), ''].join('\n');
    const file = join(this.#hosts, 'hosts');
    // Readers see the old file or the new one.
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  get #hosts(): string {
    return join(this.#deps.directory, 'hosts');
  }

  async #runContainers(): Promise<void> {
    const { network, log } = this.#deps;
    await mkdir(this.#hosts, { recursive: true });
    this.#link = await network.add();
    log(`starts at ${this.#link.address}`);
    this.#status.changed();
    this.writeHosts();
    await this.#writeVolumes();
    for (const container of this.#initContainers) {
      if ((await container.run()) !== 0) return;
    }
    await Promise.all(this.#containers.map((container) => container.run()));
  }

  /** Waits for missing ConfigMaps, Secrets and volumes. */
  async #writeVolumes(): Promise<void> {
    for (let told = ''; !this.isTerminating; ) {
      try {
        this.#volumes = await writeVolumes(this.#pod, this.#volumesDirectory, this.#volumeSources);
        return;
      } catch (error) {
        if (error instanceof TypeError) throw error;
        if (messageOf(error) !== told) this.#deps.log(`waits: ${messageOf(error)}`);
        told = messageOf(error);
        await Promise.race([this.#deletion.promise, delay(AGAIN_MS)]);
      }
    }
  }

  /** Writes changed Secrets and ConfigMaps into the volumes of the pod. */
  refreshVolumes(): Promise<void> {
    return refreshVolumes(this.#pod, this.#volumesDirectory, this.#volumeSources);
  }

  get #volumesDirectory(): string {
    return join(this.#deps.directory, 'volumes');
  }

  get #volumeSources(): VolumeSources {
    return {
      ...this.#fields,
      contentsOf: (kind, name) => this.#deps.objects[kind](this.#namespace, name),
      serviceAccountToken: (audience, seconds) => this.#newToken(audience, seconds),
      directoryOfClaim: (name) => this.#deps.directoryOfClaim(this.#namespace, name),
    };
  }

  get #namespace(): string {
    return this.#pod.metadata?.namespace ?? '';
  }

  get #fields(): Pick<EnvironmentSources, 'pod' | 'podAddress' | 'nodeAddress'> {
    return { pod: this.#pod, podAddress: this.#link?.address ?? '', nodeAddress: this.#deps.nodeAddress };
  }

  async #newToken(audience: string | undefined, seconds: number): Promise<string> {
    const { name = '', uid } = this.#pod.metadata ?? {};
    const { status } = await this.#deps.core.createNamespacedServiceAccountToken({
      namespace: this.#namespace,
      name: this.#pod.spec?.serviceAccountName ?? 'default',
      body: {
        spec: {
          audiences: audience === undefined ? [] : [audience],
          expirationSeconds: seconds,
          boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name, uid },
        },
      },
    });
    return status?.token ?? '';
  }

  #newContainer(container: V1Container, restartPolicy: RestartPolicy): Container {
    return new Container({
      container,
      restartPolicy,
      graceSeconds: this.#pod.spec?.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
      launch: () => this.#launch(container),
      dial: (port, signal) => this.#deps.switch.dial(`${this.#link?.address}:${port}`, signal),
      changed: () => this.#status.changed(),
      log: (line) => this.#deps.log(line),
    });
  }

  async #launch(container: V1Container): Promise<LaunchedContainer> {
    const { directory, objects, filesOf, serviceVariables } = this.#deps;
    const namespace = this.#namespace;
    const environment = await environmentOf(
      container,
      {
        ...this.#fields,
        configMap: async (name) => textsOf(await objects.configMap(namespace, name)),
        secret: async (name) => textsOf(await objects.secret(namespace, name)),
      },
      serviceVariables(namespace, this.#pod.spec?.enableServiceLinks ?? true),
    );
    return launchContainer({
      pod: this.#pod,
      container,
      namespace: this.#link?.namespace ?? '',
      environment,
      mounts: [{ from: this.#hosts, to: '/run/hosts', isReadOnly: true }, ...this.#mountsOf(container)],
      files: await filesOf(container.image ?? ''),
      root: join(directory, 'roots', container.name),
    });
  }

  #mountsOf({ volumeMounts = [] }: V1Container): Mount[] {
    // Outer directories first, so that they do not hide the inner ones.
    return volumeMounts
      .toSorted((a, b) => a.mountPath.length - b.mountPath.length)
      .map(({ name, mountPath, subPath = '', readOnly = false }) => {
        const volume = this.#volumes.get(name);
        if (volume === undefined) throw new MissingSource('volume', name);
        return { from: join(volume.directory, subPath), to: mountPath, isReadOnly: readOnly || volume.isReadOnly };
      });
  }
}
