import { AS_SHIPPED, proxyCli } from '../paths.ts';
import { type Ended, type Running, runProcess, startProcess } from './child-process.ts';

/** A proxy in its own process. Disposing of it kills it. */
export interface RunningProxy extends AsyncDisposable {
  /** Address of its gRPC, `host:port`. */
  readonly endpoint: string;
  /** `host:port`. */
  readonly http: string;
  readonly process: Running;
}

const argsOf = (join: readonly string[], flags: readonly string[], cli = proxyCli): string[] => [
  cli,
  '--json',
  `--join=${join.join(',')}`,
  '--grpc-port=0',
  '--http-port=0',
  '--gossip-port=0',
  ...flags,
];

/**
 * Starts a built proxy. Resolves when it serves, even if it knows no node yet. `cli`: its command line; default: that of this
 * workspace. `behind`: a program with arguments that runs the proxy.
 * `asShipped`: true for a test that measures memory, as for a node.
 */
export async function startProxy(
  join: readonly string[],
  flags: readonly string[] = [],
  cli?: string,
  behind: readonly string[] = [],
  asShipped = false,
): Promise<RunningProxy> {
  const [command = '', ...args] = [...behind, process.execPath, ...argsOf(join, flags, cli)];
  const env = asShipped ? { ...process.env, [AS_SHIPPED]: '1' } : process.env;
  const process_ = await startProcess(command, args, { env });
  for await (const line of process_.lines()) {
    const { grpc, http } = JSON.parse(line) as { readonly grpc: string; readonly http: string };
    return { endpoint: grpc, http, process: process_, [Symbol.asyncDispose]: () => process_[Symbol.asyncDispose]() };
  }
  throw new Error(`the proxy ended: ${(await process_.ended).stderr}`);
}

/** Runs a proxy that must refuse to start. */
export function runProxy(join: readonly string[], flags: readonly string[] = []): Promise<Ended> {
  return runProcess(process.execPath, argsOf(join, flags));
}
