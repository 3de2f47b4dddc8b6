import { type TaskMasterError, WrongClusterError } from '../values/errors.ts';

/**
 * Knows to which clusters the endpoints of a client belong. The tasks of one cluster are unknown in another one, so a client that
 * meets two makes no call until they are one again.
 *
 *  C1  With a pinned cluster, endpoints of others get no calls, and the rest goes on.
 *  C2  Without one it is unknown which of two clusters is meant, so no endpoint gets calls.
 *  C3  What an endpoint has told counts until its connection ends, also if no call was in flight then.
 */
export class ClusterCheck {
  readonly #pinned: string | undefined;
  readonly #endpoints: number;
  /** By endpoint, as far as they are connected and tell it. */
  readonly #told = new Map<string, string>();

  /** `endpoints`: their number. */
  constructor(pinned: string | undefined, endpoints: number) {
    this.#pinned = pinned;
    this.#endpoints = endpoints;
  }

  /** Call it with the cluster of an endpoint. Empty: the endpoint does not tell it. */
  told(endpoint: string, cluster: string): void {
    if (cluster === '' && this.#pinned === undefined) this.#told.delete(endpoint);
    else this.#told.set(endpoint, cluster);
  }

  /** Call it when an endpoint cannot be reached: another program may answer there next. */
  lost(endpoint: string): void {
    this.#told.delete(endpoint);
  }

  /** Whether a program of this cluster may get calls. */
  mayServe(cluster: string): boolean {
    if (this.#pinned !== undefined) return cluster === this.#pinned;
    if (this.isMixed) return false;
    const [known = cluster] = this.#clusters;
    return cluster === '' || cluster === known;
  }

  /** Whether the endpoints belong to several clusters, and none is pinned (C2). */
  get isMixed(): boolean {
    return this.#pinned === undefined && this.#clusters.size > 1;
  }

  /** Why no endpoint may get calls. Undefined: some may, or may once they are connected. */
  get problem(): TaskMasterError | undefined {
    const names = [...this.#told].map(([endpoint, cluster]) => `${endpoint} is ${shown(cluster)}`).join(', ');
    if (this.isMixed) return wrongCluster(`the endpoints belong to several clusters: ${names}`);
    if (this.#pinned === undefined || this.#told.size < this.#endpoints) return undefined;
    if (this.#clusters.has(this.#pinned)) return undefined;
    return wrongCluster(`no endpoint belongs to cluster ${this.#pinned}: ${names}`);
  }

  get #clusters(): ReadonlySet<string> {
    return new Set(this.#told.values());
  }
}

function shown(cluster: string): string {
  if (cluster === '') return 'a program that does not tell its cluster';
  return cluster.startsWith('alone-') ? 'a node without a cluster' : `of cluster ${cluster}`;
}

const wrongCluster = (problem: string): TaskMasterError =>
  new WrongClusterError(`${problem}; nothing was sent`, { reason: 'WRONG_CLUSTER' });
