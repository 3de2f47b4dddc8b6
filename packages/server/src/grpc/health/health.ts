import type { Server } from '@grpc/grpc-js';
import { HealthImplementation, type ServingStatus } from 'grpc-health-check';
import { CLUSTER_SERVICE } from '../cluster-service.ts';

const POLL_MS = 250;
/** The names in grpc.health.v1: the node as a whole, and its services for clients and operators. */
const SERVICES = ['', 'taskmaster.v1.TaskMasterService', CLUSTER_SERVICE] as const;

/** Serves grpc.health.v1. */
export class HealthService implements Disposable {
  readonly #isServing: () => boolean;
  readonly #service = new HealthImplementation();
  readonly #timer: NodeJS.Timeout;
  #shown: ServingStatus | undefined;
  #draining = false;

  constructor(isServing: () => boolean) {
    this.#isServing = isServing;
    this.look();
    this.#timer = setInterval(() => this.look(), POLL_MS).unref();
  }

  addTo(server: Server): void {
    this.#service.addToServer(server);
  }

  /** Reports NOT_SERVING from now on. */
  drain(): void {
    this.#draining = true;
    this.look();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /** Updates the state now. Without this call it is updated a moment later. */
  look(): void {
    const status = !this.#draining && this.#isServing() ? 'SERVING' : 'NOT_SERVING';
    if (status === this.#shown) return;
    this.#shown = status;
    for (const service of SERVICES) this.#service.setStatus(service, status);
  }
}
