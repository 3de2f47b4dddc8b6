import { z } from 'zod';
import type { ClusterRecord, RecordedCluster } from '../cluster/membership/cluster-record.ts';
import { type KubernetesApi, KubernetesError } from './api.ts';

const configMapSchema = z.looseObject({ data: z.record(z.string(), z.string()).optional() });

/**
 * Keeps the record of the cluster in a ConfigMap. The ConfigMap must exist: so a wrong name is noticed, and the pod needs rights
 * for this object only.
 */
export class ConfigMapRecord implements ClusterRecord {
  readonly #api: () => Promise<KubernetesApi>;
  readonly #name: string;

  constructor(api: () => Promise<KubernetesApi>, name: string) {
    this.#api = api;
    this.#name = name;
  }

  async claim(cluster: RecordedCluster): Promise<RecordedCluster> {
    const api = await this.#api();
    const path = `/api/v1/namespaces/${api.namespace}/configmaps/${this.#name}`;
    for (;;) {
      const object = configMapSchema.parse(await api.get(path));
      const recorded = recordIn(object);
      if (recorded) return recorded;
      try {
        // The object has the resourceVersion that was read, so a concurrent claim is not overwritten.
        await api.put(path, { ...object, data: { ...object.data, ...cluster } });
      } catch (error) {
        if (error instanceof KubernetesError && error.status === 409) continue;
        throw error;
      }
      return cluster;
    }
  }
}

function recordIn({ data }: z.output<typeof configMapSchema>): RecordedCluster | undefined {
  const { clusterId, firstNode } = data ?? {};
  return clusterId === undefined || firstNode === undefined ? undefined : { clusterId, firstNode };
}
