import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CoreV1Api, KubeConfig, V1PersistentVolumeClaim } from '@kubernetes/client-node';
import { isAnswerWith, persist } from './api/persist.ts';
import { type WatchedObjects, watchObjects } from './api/watch-objects.ts';

/** Gives every claim a volume: a directory that lives as long as the claim. The control plane binds the two. */
export class Claims implements AsyncDisposable {
  readonly #core: CoreV1Api;
  readonly #directory: string;
  readonly #stopped = new AbortController();
  readonly #provisioned = new Set<string>();
  readonly #failed: (error: unknown) => void;
  #watched: WatchedObjects<V1PersistentVolumeClaim> | undefined;

  static async start(
    config: KubeConfig,
    core: CoreV1Api,
    directory: string,
    failed: (error: unknown) => void,
  ): Promise<Claims> {
    const claims = new Claims(core, directory, failed);
    const list = () => core.listPersistentVolumeClaimForAllNamespaces();
    claims.#watched = await watchObjects(config, '/api/v1/persistentvolumeclaims', list, {
      changed: (claim) => void claims.#provision(claim).catch(failed),
    });
    return claims;
  }

  private constructor(core: CoreV1Api, directory: string, failed: (error: unknown) => void) {
    this.#core = core;
    this.#directory = directory;
    this.#failed = failed;
  }

  /** The directory of a bound claim. */
  directoryOf(namespace: string, name: string): string | undefined {
    const found = this.#watched
      ?.list()
      .find(({ metadata }) => metadata?.namespace === namespace && metadata.name === name);
    const volume = found?.status?.phase === 'Bound' ? found.spec?.volumeName : undefined;
    return volume && join(this.#directory, volume);
  }

  /** Loses what is on the volume of a claim, as if its disk were replaced. No pod may use it. */
  async lose(namespace: string, name: string): Promise<void> {
    const directory = this.#volumeOf(namespace, name);
    await rm(directory, { recursive: true });
    await mkdir(directory);
  }

  /** Exchanges the volumes of two claims of one name. Containers see it when they start: those that run keep what they have. */
  async exchange(name: string, namespace: string, other: string): Promise<void> {
    const [one, two] = [this.#volumeOf(namespace, name), this.#volumeOf(other, name)];
    await rename(one, `${one}.exchanged`);
    await rename(two, one);
    await rename(`${one}.exchanged`, two);
  }

  #volumeOf(namespace: string, name: string): string {
    const directory = this.directoryOf(namespace, name);
    if (directory === undefined) throw new Error(`claim ${name} has no volume`);
    return directory;
  }

  async #provision({ metadata, spec }: V1PersistentVolumeClaim): Promise<void> {
    const { name = '', namespace = '', uid = '' } = metadata ?? {};
    if (spec?.volumeName || this.#provisioned.has(uid)) return;
    this.#provisioned.add(uid);
    const volume = `volume-${uid}`;
    const path = join(this.#directory, volume);
    await mkdir(path, { recursive: true });
    const body = {
      metadata: { name: volume },
      spec: {
        capacity: { storage: spec?.resources?.requests?.storage ?? '1Gi' },
        accessModes: spec?.accessModes ?? ['ReadWriteOnce'],
        storageClassName: spec?.storageClassName ?? '',
        persistentVolumeReclaimPolicy: 'Retain',
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, namespace, uid },
        hostPath: { path },
      },
    };
    try {
      await persist(() => this.#core.createPersistentVolume({ body }), this.#stopped.signal);
    } catch (error) {
      // 409: an earlier call that was not answered has made it.
      if (!this.#stopped.signal.aborted && !isAnswerWith(error, 409)) this.#failed(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    await this.#watched?.[Symbol.asyncDispose]();
  }
}
