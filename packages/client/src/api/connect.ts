import { connectTimeoutMs, GrpcTransport } from '../transport/grpc-transport.ts';
import type { CallOptions, ConnectOptions } from '../values/options.ts';
import { clientOver, type TaskMasterClient } from './client.ts';
import { assertRuntime } from './runtime.ts';

/**
 * Connects to a node, or to any of several nodes or proxies: `connect('127.0.0.1:7400')`, `connect({ endpoints: [...] })`.
 * Resolves when one endpoint is up. Endpoints that are lost later are tried again until the client is closed.
 * @throws UnavailableError when none is up within `connectTimeout`; Cancelled; TypeError for wrong options; Error on an old Node.
 */
export async function connect(
  options: string | readonly string[] | ConnectOptions,
  call: Pick<CallOptions, 'signal'> = {},
): Promise<TaskMasterClient> {
  assertRuntime();
  const given: ConnectOptions = isEndpoints(options) ? { endpoints: options } : options;
  assertKnown(given, connectOptions, '');
  assertKnown(call, callOptions, ': options go with the endpoints, as in connect({ endpoints, routing })');
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
  // Nothing at all is wrong as endpoints: somebody's variable is not set.
  return typeof options !== 'object' || options === null || Array.isArray(options);
}

const connectOptions: Readonly<Record<keyof ConnectOptions, true>> = {
  ...{ endpoints: true, routing: true, tls: true, credentials: true, connectTimeout: true, useStream: true },
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

/** An option that is misspelt, or stands in the wrong place, would be ignored in silence. */
function assertKnown(given: object, known: object, hint: string): void {
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(known, name)) throw new TypeError(`${name}: there is no such option here${hint}`);
  }
}
