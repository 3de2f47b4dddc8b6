import { connectTimeoutMs, GrpcTransport } from '../transport/grpc-transport.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import { type CallOptions, type ConnectOptions, clientNames } from '../values/options.ts';
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
  assertKnown('connect', given, connectOptions);
  assertKnown('options beside the endpoints go with them, as in connect({ endpoints, routing })', call, callOptions);
  const { signal } = call;
  const timeoutMs = connectTimeoutMs(given);
  const transport = new GrpcTransport(given);
  try {
    const { timeout, retry, workerLabel, onCallRetried, telemetry } = given;
    const client = clientOver(transport, { timeout, retry, workerLabel, onCallRetried, telemetry });
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

const connectOptions: OptionNames<ConnectOptions> = {
  ...clientNames,
  endpoints: true,
  cluster: true,
  routing: true,
  tls: true,
  credentials: true,
  connectTimeout: true,
  useStream: true,
  token: true,
  tokenFile: true,
  insecure: true,
  httpProxy: true,
  renewalThread: true,
  maxCallsInFlight: true,
  onReconnected: true,
};
const callOptions: OptionNames<Pick<CallOptions, 'signal'>> = { signal: true };
