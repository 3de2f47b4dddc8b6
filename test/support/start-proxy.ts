import { type Ended, type Running, runProcess, startProcess } from './child-process.ts';
import { proxyCli } from './paths.ts';

/** A proxy in a process of its own. Disposing of it kills it. */
export interface RunningProxy extends AsyncDisposable {
  /** Of gRPC, `host:port`. */
  readonly endpoint: string;
  /** `host:port`. */
  readonly http: string;
  readonly process: Running;
}

const argsOf = (join: readonly string[], flags: readonly string[]): string[] => [
  ...[proxyCli, '--json', `--join=${join.join(',')}`, '--grpc-port=0', '--http-port=0', '--gossip-port=0'],
  ...flags,
];

/** Starts a proxy of the build; resolves when it serves, whether or not it knows a node. */
export async function startProxy(join: readonly string[], flags: readonly string[] = []): Promise<RunningProxy> {
  const process_ = await startProcess(process.execPath, argsOf(join, flags));
  for await (const line of process_.lines()) {
    const { grpc, http } = JSON.parse(line) as { readonly grpc: string; readonly http: string };
    return { endpoint: grpc, http, process: process_, [Symbol.asyncDispose]: () => process_[Symbol.asyncDispose]() };
  }
  throw new Error(`the proxy ended: ${(await process_.ended).stderr}`);
}

/** Runs a proxy that is expected to refuse to start. */
export function runProxy(join: readonly string[], flags: readonly string[] = []): Promise<Ended> {
  return runProcess(process.execPath, argsOf(join, flags));
}
