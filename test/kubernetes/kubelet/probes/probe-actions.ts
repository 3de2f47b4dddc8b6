import { request as httpRequest } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { V1Container, V1HTTPGetAction, V1LifecycleHandler, V1Probe } from '@kubernetes/client-node';

/** Ways to reach a running container. */
export interface ContainerReach {
  /** Connects to a port of the pod. */
  dial(port: number, signal: AbortSignal): Promise<Socket>;
  /** Runs a command inside of the container. Resolves with its exit code. */
  exec(command: readonly string[], signal: AbortSignal): Promise<{ readonly code: number; readonly output: string }>;
}

/** The number of a port that may be given by its name in the container. */
function portNumber(container: V1Container, port: number | string): number {
  if (typeof port === 'number') return port;
  const found = container.ports?.find(({ name }) => name === port)?.containerPort ?? Number(port);
  if (!Number.isInteger(found)) throw new TypeError(`container ${container.name} has no port ${port}`);
  return found;
}

/** Makes one attempt of a probe. Resolves with undefined if it succeeds, and with what was wrong otherwise. */
export async function probeOnce(
  probe: V1Probe,
  container: V1Container,
  reach: ContainerReach,
): Promise<string | undefined> {
  const signal = AbortSignal.timeout((probe.timeoutSeconds ?? 1) * 1000);
  try {
    if (probe.grpc) await checkGrpc(probe.grpc.port, probe.grpc.service ?? '', reach, signal);
    else await act(probe, container, reach, signal);
    return undefined;
  } catch (error) {
    return signal.aborted ? 'timeout' : error instanceof Error ? error.message : String(error);
  }
}

/** Does what a probe or a lifecycle hook says. Rejects if it fails. */
export async function act(
  { exec, httpGet, tcpSocket }: Pick<V1LifecycleHandler, 'exec' | 'httpGet' | 'tcpSocket'>,
  container: V1Container,
  reach: ContainerReach,
  signal: AbortSignal,
): Promise<void> {
  if (exec) {
    const { code, output } = await reach.exec(exec.command ?? [], signal);
    if (code !== 0) throw new Error(`the command ended with ${code}: ${output.trim()}`);
  } else if (httpGet) {
    await get(httpGet, portNumber(container, httpGet.port), reach, signal);
  } else if (tcpSocket) {
    (await reach.dial(portNumber(container, tcpSocket.port), signal)).destroy();
  } else {
    throw new TypeError(`container ${container.name} has a probe or a hook of an unknown kind`);
  }
}

async function get(
  { path = '/', httpHeaders = [], scheme = 'HTTP' }: V1HTTPGetAction,
  port: number,
  reach: ContainerReach,
  signal: AbortSignal,
): Promise<void> {
  const dialled = await reach.dial(port, signal);
  // A kubelet does not check the certificate of a pod.
  const socket = scheme === 'HTTPS' ? connectTls({ socket: dialled, rejectUnauthorized: false }) : dialled;
  const headers = Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value]));
  const answer = Promise.withResolvers<number>();
  const request = httpRequest({ path, headers: { host: 'pod', ...headers }, signal, createConnection: () => socket });
  // It came paused, so that nothing that the server said first is lost.
  request.once('socket', (used) => used.resume());
  request.once('response', (response) => {
    response.resume();
    answer.resolve(response.statusCode ?? 0);
  });
  request.once('error', answer.reject);
  request.end();
  try {
    const status = await answer.promise;
    if (status < 200 || status >= 400) throw new Error(`GET ${path} answered ${status}`);
  } finally {
    socket.destroy();
  }
}

/** `grpc.health.v1.Health/Check`. */
async function checkGrpc(port: number, service: string, reach: ContainerReach, signal: AbortSignal): Promise<void> {
  const socket = await reach.dial(port, signal);
  const session = connectHttp2('http://pod', { createConnection: () => socket });
  const answer = Promise.withResolvers<Buffer>();
  session.once('error', answer.reject);
  signal.addEventListener('abort', () => answer.reject(new Error('timeout')), { once: true });
  const call = session.request({
    ':method': 'POST',
    ':path': '/grpc.health.v1.Health/Check',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const chunks: Buffer[] = [];
  call.on('data', (chunk: Buffer) => chunks.push(chunk));
  call.once('error', answer.reject);
  call.once('end', () => answer.resolve(Buffer.concat(chunks)));
  call.end(grpcMessage(service === '' ? Buffer.alloc(0) : lengthDelimited(service)));
  try {
    // Field 1 of the reply is the status, and 1 is SERVING.
    if (!(await answer.promise).equals(grpcMessage(Buffer.from([8, 1])))) throw new Error('the service is not serving');
  } finally {
    session.destroy();
  }
}

/** Field 1 with a text of less than 128 bytes. */
const lengthDelimited = (text: string): Buffer => Buffer.from([10, Buffer.byteLength(text), ...Buffer.from(text)]);

function grpcMessage(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
