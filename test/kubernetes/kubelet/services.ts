import {
  CoreV1Api,
  DiscoveryV1Api,
  type KubeConfig,
  type V1EndpointSlice,
  type V1Service,
} from '@kubernetes/client-node';
import { API_SERVICE } from '../control-plane/control-plane.ts';
import { type WatchedObjects, watchObjects } from './api/watch-objects.ts';
import { hostsLines, servicePorts, serviceVariables } from './network/service-table.ts';
import type { SwitchTable } from './network/switch.ts';

/** The Services of the cluster with their endpoints, kept current. */
export class Services implements AsyncDisposable {
  readonly #services: WatchedObjects<V1Service>;
  readonly #slices: WatchedObjects<V1EndpointSlice>;

  static async watch(config: KubeConfig, changed: () => void): Promise<Services> {
    const [core, discovery] = [config.makeApiClient(CoreV1Api), config.makeApiClient(DiscoveryV1Api)];
    const told = { changed, gone: changed };
    return new Services(
      await watchObjects(config, '/api/v1/services', () => core.listServiceForAllNamespaces(), told),
      await watchObjects(
        config,
        '/apis/discovery.k8s.io/v1/endpointslices',
        () => discovery.listEndpointSliceForAllNamespaces(),
        told,
      ),
    );
  }

  private constructor(services: WatchedObjects<V1Service>, slices: WatchedObjects<V1EndpointSlice>) {
    this.#services = services;
    this.#slices = slices;
  }

  /** Where the addresses of Services lead. `api`: where that of the API server leads. */
  table(api: string): SwitchTable {
    const rows = servicePorts(this.#services.list(), this.#slices.list())
      .filter(({ address }) => address !== API_SERVICE.address)
      .map(({ address, port, targets }) => ({ listen: `${address}:${port}`, targets }));
    return [{ listen: `${API_SERVICE.address}:${API_SERVICE.port}`, targets: [api] }, ...rows];
  }

  /** See `hostsLines`. */
  hostsLines(namespace: string): readonly string[] {
    return hostsLines(namespace, this.#services.list(), this.#slices.list());
  }

  /** See `serviceVariables`. */
  variables(namespace: string, enableServiceLinks: boolean): Readonly<Record<string, string>> {
    return serviceVariables(namespace, this.#services.list(), enableServiceLinks);
  }

  /** The address of a Service with this name. */
  addressOf(namespace: string, name: string): string | undefined {
    return this.#services.list().find(({ metadata }) => metadata?.name === name && metadata.namespace === namespace)
      ?.spec?.clusterIP;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#services[Symbol.asyncDispose]();
    await this.#slices[Symbol.asyncDispose]();
  }
}
