import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  type MethodDefinition,
  type Server,
  type ServerWritableStream,
  status as Status,
} from '@grpc/grpc-js';
import type { Log } from '@taskmaster/engine/ports';
import {
  HealthService as definition,
  HealthCheckRequest,
  type HealthCheckResponse,
  type HealthListResponse,
  HealthCheckResponse_ServingStatus as Serving,
} from '@taskmaster/proto';
import { refusalOf, toCallStatus } from '../calls/wire-errors.ts';
import { decodeRequest } from '../requests/codec.ts';
import { CLUSTER_SERVICE } from './cluster-service.ts';

const POLL_MS = 250;
/** The names in grpc.health.v1: the node as a whole, and its services for clients and operators. */
const SERVICES: readonly string[] = ['', 'taskmaster.v1.TaskMasterService', CLUSTER_SERVICE];

type Watch = ServerWritableStream<Buffer, HealthCheckResponse>;

/** Serves grpc.health.v1. */
export class HealthService implements Disposable {
  readonly #isServing: () => boolean;
  readonly #log: Log;
  readonly #watches = new Set<Watch>();
  readonly #timer: NodeJS.Timeout;
  #shown: HealthCheckResponse = { status: Serving.UNKNOWN };
  #draining = false;

  constructor(isServing: () => boolean, log: Log) {
    this.#isServing = isServing;
    this.#log = log;
    this.look();
    this.#timer = setInterval(() => this.look(), POLL_MS).unref();
  }

  addTo(server: Server): void {
    const check: handleUnaryCall<Buffer, HealthCheckResponse> = ({ request }, callback) => {
      try {
        const { service } = decodeRequest(HealthCheckRequest, request);
        if (SERVICES.includes(service)) callback(null, this.#shown);
        else callback({ code: Status.NOT_FOUND, details: `there is no service ${service}` });
      } catch (error) {
        callback(toCallStatus(refusalOf(error, this.#log)));
      }
    };
    const list: handleUnaryCall<Buffer, HealthListResponse> = (_call, callback) => {
      callback(null, { statuses: Object.fromEntries(SERVICES.map((service) => [service, this.#shown])) });
    };
    const watch: handleServerStreamingCall<Buffer, HealthCheckResponse> = (call) => {
      try {
        this.#watch(call, decodeRequest(HealthCheckRequest, call.request));
      } catch (error) {
        call.emit('error', toCallStatus(refusalOf(error, this.#log)));
      }
    };
    const methods = {
      check: encoded(definition.check),
      list: encoded(definition.list),
      watch: encoded(definition.watch),
    };
    server.addService(methods, { check, list, watch });
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

  #watch(call: Watch, { service }: HealthCheckRequest): void {
    if (!SERVICES.includes(service)) {
      // A service of this name may come with another release. The call stays open, as gRPC asks for.
      call.write({ status: Serving.SERVICE_UNKNOWN });
      return;
    }
    call.write(this.#shown);
    this.#watches.add(call);
    call.once('cancelled', () => this.#watches.delete(call)); // emitted at every end of the call
  }
}

/** A method whose requests reach the handler encoded, so that an invalid one is refused with a reason. */
function encoded<Q, R>(method: MethodDefinition<Q, R>): MethodDefinition<Buffer, R> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  return { ...method, requestSerialize: asIs, requestDeserialize: asIs };
}
