import { connectTimeoutMs, GrpcTransport } from '../transport/grpc-transport.ts';
import type { CallOptions, ConnectOptions } from '../values/options.ts';
import { clientOver, type TaskMasterClient } from './client.ts';
import { assertRuntime } from './runtime.ts';

/**
 * Connects to one or several nodes or proxies: `connect('127.0.0.1:7400')`, `connect({ endpoints: [...] })`. Resolves when one
 * endpoint is up. The client reconnects to lost endpoints until it is closed.
 * @throws UnavailableError if no endpoint is up within `connectTimeout`; CancelledError; TypeError for wrong options; Error on a
 * version of Node that is too old.
 */
export async function connect(
  options: string | readonly string[] | ConnectOptions,
  call: Pick<CallOptions, 'signal'> = {},
): Promise<TaskMasterClient> {
  assertRuntime();
  const given: ConnectOptions = isEndpoints(options) ? { endpoints: options } : options;
  assertKnown(given, connectOptions, '');
  assertKnown(call, callOptions, '; options go with the endpoints, as in connect({ endpoints, routing })');
  const { signal } = call;
  const timeoutMs = connectTimeoutMs(given);
  const transport = new GrpcTransport(given);
  try {
    const client = clientOver(transport, given);
    await transport.ready(timeoutMs, signal);
    return client;
  } catch (error) {
    await transport.close();
    throw error;
  }
}

function isEndpoints(options: string | readonly string[] | ConnectOptions): options is string | readonly string[] {
  // undefined and null are taken for endpoints, so that the error says that endpoints are missing.
  return typeof options !== 'object' || options === null || Array.isArray(options);
}

const connectOptions: Readonly<Record<keyof ConnectOptions, true>> = {
  ...{
    endpoints: true,
    cluster: true,
    routing: true,
    tls: true,
    credentials: true,
    connectTimeout: true,
    useStream: true,
  },
  ...{ token: true, tokenFile: true, insecure: true, httpProxy: true, renewalThread: true },
  ...{
    maxCallsInFlight: true,
    onReconnected: true,
    timeout: true,
    retry: true,
    workerLabel: true,
    onCallRetried: true,
  },
};
const callOptions: Readonly<Record<keyof Pick<CallOptions, 'signal'>, true>> = { signal: true };

/** Refuses misspelt and misplaced options, which would have no effect. */
function assertKnown(given: object, known: object, hint: string): void {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(known, name)) throw new TypeError(`${name}: no such option${hint}`);
  }
}
