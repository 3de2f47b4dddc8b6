import { type Server, type ServerWritableStream, status as Status } from '@grpc/grpc-js';
import {
  HealthService as definition,
  type HealthCheckRequest,
  type HealthCheckResponse,
  type HealthServer,
  HealthCheckResponse_ServingStatus as Serving,
} from '@taskmaster/proto';
import { CLUSTER_SERVICE } from '../cluster-service.ts';

const POLL_MS = 250;
/** The names in grpc.health.v1: the node as a whole, and its services for clients and operators. */
const SERVICES: readonly string[] = ['', 'taskmaster.v1.TaskMasterService', CLUSTER_SERVICE];

type Watch = ServerWritableStream<HealthCheckRequest, HealthCheckResponse>;

/** Serves grpc.health.v1. */
export class HealthService implements Disposable {
  readonly #isServing: () => boolean;
  readonly #watches = new Set<Watch>();
  readonly #timer: NodeJS.Timeout;
  #shown: HealthCheckResponse = { status: Serving.UNKNOWN };
  #draining = false;

  constructor(isServing: () => boolean) {
    this.#isServing = isServing;
    this.look();
    this.#timer = setInterval(() => this.look(), POLL_MS).unref();
  }

  addTo(server: Server): void {
    const methods: HealthServer = {
      check: ({ request: { service } }, callback) => {
        if (SERVICES.includes(service)) callback(null, this.#shown);
        else callback({ code: Status.NOT_FOUND, details: `there is no service ${service}` });
      },
      list: (_call, callback) => {
        callback(null, { statuses: Object.fromEntries(SERVICES.map((service) => [service, this.#shown])) });
      },
      watch: (call) => this.#watch(call),
    };
    server.addService(definition, methods);
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
    const status = !this.#draining && this.#isServing() ? Serving.SERVING : Serving.NOT_SERVING;
    if (status === this.#shown.status) return;
    this.#shown = { status };
    for (const call of this.#watches) call.write(this.#shown);
  }

  #watch(call: Watch): void {
    if (!SERVICES.includes(call.request.service)) {
      // A service of this name may come with another release. The call stays open, as gRPC asks for.
      call.write({ status: Serving.SERVICE_UNKNOWN });
      return;
    }
    call.write(this.#shown);
    this.#watches.add(call);
    call.once('cancelled', () => this.#watches.delete(call)); // emitted at every end of the call
  }
}
