import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import {
  type HealthCheckResponse,
  HealthService,
  HealthCheckResponse_ServingStatus as Serving,
} from '@taskmaster/proto';

const { check, watch } = HealthService;
const REFLECTION = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
/** A ServerReflectionRequest for the names of all services. */
const LIST_SERVICES = Buffer.from([0x3a, 0x00]);

const asIs = (bytes: Buffer): Buffer => bytes;
const openClient = (port: number): Client => new Client(`127.0.0.1:${port}`, credentials.createInsecure());

/** The health of a service according to grpc.health.v1. '' is the node. */
export async function checkHealth(port: number, service = ''): Promise<unknown> {
  const client = openClient(port);
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        check.path,
        check.requestSerialize,
        check.responseDeserialize,
        { service },
        (error, reply) => (error ? reject(error) : resolve({ status: nameOf(reply) })),
      );
    });
  } finally {
    client.close();
  }
}

const nameOf = (reply: HealthCheckResponse | undefined): string | undefined =>
  Object.entries(Serving).find(([, status]) => status === reply?.status)?.[0];

/** A call that stays open until the server, or its user, ends it. */
export interface OpenCall extends Disposable {
  /** Resolves with the error with which the server ends the call. */
  readonly ended: Promise<ServiceError>;
}

/** Watches the health of the node, over a new connection or an existing one. */
export function watchHealth(at: number | Client): OpenCall & { said(status: string): Promise<void> } {
  const client = typeof at === 'number' ? openClient(at) : at;
  const call = client.makeServerStreamRequest(watch.path, watch.requestSerialize, watch.responseDeserialize, {
    service: '',
  });
  const heard = new Set<string>();
  const news = new EventTarget();
  call.on('data', (reply: HealthCheckResponse) => {
    heard.add(nameOf(reply) ?? '');
    news.dispatchEvent(new Event('said'));
  });
  const ended = new Promise<ServiceError>((resolve) => call.once('error', resolve));
  return {
    ended,
    async said(status) {
      while (!heard.has(status)) await new Promise((resolve) => news.addEventListener('said', resolve, { once: true }));
    },
    [Symbol.dispose]: () => (typeof at === 'number' ? client.close() : call.cancel()),
  };
}

/** Lists the services by reflection and keeps the call open. */
export function listServices(port: number): OpenCall & { readonly answered: Promise<unknown> } {
  const client = openClient(port);
  const call = client.makeBidiStreamRequest(REFLECTION, asIs, asIs);
  const answered = new Promise((resolve) => call.once('data', resolve));
  const ended = new Promise<ServiceError>((resolve) => call.once('error', resolve));
  call.write(LIST_SERVICES);
  return { answered, ended, [Symbol.dispose]: () => client.close() };
}
