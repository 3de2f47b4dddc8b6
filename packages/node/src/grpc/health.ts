import type { Server } from '@grpc/grpc-js';
import { HealthImplementation, type ServingStatus } from 'grpc-health-check';
import type { EngineHealth } from '../engine/commands.ts';

const POLL_MS = 250;
/** The node as a whole, and its one service. */
const SERVICES = ['', 'taskmaster.v1.TaskMasterService'] as const;

/** grpc.health.v1, following the engine's health. A full disk does not count: most of the service goes on. */
export class HealthService implements Disposable {
  readonly #health: () => EngineHealth;
  readonly #service = new HealthImplementation();
  readonly #timer: NodeJS.Timeout;
  #shown: ServingStatus | undefined;
  #draining = false;

  constructor(health: () => EngineHealth) {
    this.#health = health;
    this.#show();
    this.#timer = setInterval(() => this.#show(), POLL_MS).unref();
  }

  addTo(server: Server): void {
    this.#service.addToServer(server);
  }

  /** NOT_SERVING from now on. */
  drain(): void {
    this.#draining = true;
    this.#show();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #show(): void {
    const { kind } = this.#health();
    const status = !this.#draining && (kind === 'serving' || kind === 'full') ? 'SERVING' : 'NOT_SERVING';
    if (status === this.#shown) return;
    this.#shown = status;
    for (const service of SERVICES) this.#service.setStatus(service, status);
  }
}
