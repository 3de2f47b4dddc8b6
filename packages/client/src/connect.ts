import { clientOver, type TaskMasterClient } from './client.ts';
import { connectTimeoutMs, GrpcTransport } from './grpc-transport.ts';
import type { CallOptions, ConnectOptions } from './options.ts';

/**
 * Connects to a node, or to any of several nodes or proxies: `connect('127.0.0.1:7400')`, `connect({ endpoints: [...] })`.
 * Resolves when one endpoint is up. Endpoints that are lost later are tried again until the client is closed.
 * @throws Unavailable when none is up within `connectTimeout`; Cancelled; TypeError for wrong options.
 */
export async function connect(
  options: string | readonly string[] | ConnectOptions,
  { signal }: Pick<CallOptions, 'signal'> = {},
): Promise<TaskMasterClient> {
  const given: ConnectOptions = isEndpoints(options) ? { endpoints: options } : options;
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
  return typeof options === 'string' || Array.isArray(options);
}
