/** Time in which a thread waited. */
export const IDLE = 'idle';

/** Time in system calls, libuv and other native code, outside of any function. */
export const NATIVE = 'native';
const EVENT_LOOP = 'event loop';

/** The area of a function by the URL of its source. The first match counts. */
const AREAS: readonly (readonly [string, RegExp])[] = [
  ['protobuf', /\/packages\/proto\/|@bufbuild/],
  ['grpc-js', /@grpc[/+]grpc-js/],
  ['node: gRPC service', /\/packages\/node\/dist\/grpc\//],
  ['node: commit log', /\/packages\/engine\/dist\/log\//],
  ['node: store', /\/packages\/(node\/dist\/(store|metered-store)|engine\/dist\/ports)|@nxtedition/],
  ['node: engine', /\/packages\/engine\/|@js-sdsl/],
  ['node: rest', /\/packages\/node\//],
  ['metrics', /prom-client/],
  ['client', /\/packages\/client\//],
  ['load generator', /\/bench\//],
  ['http2', /^node:(internal\/)?http2/],
  ['sockets and streams', /^node:(internal\/)?(net|streams?|stream_base_commons)\b/],
];

/** Node's own modules, for example those of buffers, timers and threads. */
const RUNTIME = /^node:/;

/** Names that the profiler gives to time outside of functions. */
const NOBODYS: ReadonlyMap<string, string> = new Map([
  ['(garbage collector)', 'garbage collection'],
  ['(program)', NATIVE],
  ['(idle)', IDLE],
  ['(root)', NATIVE],
]);

/**
 * The area of a function. Functions of Node's own modules and of C++ count for their caller, or for the event loop if they have
 * no caller.
 */
export function areaOf(functionName: string, url: string, caller: string): string {
  const nobodys = NOBODYS.get(functionName);
  if (nobodys !== undefined) return nobodys;
  const found = AREAS.find(([, pattern]) => pattern.test(url));
  if (found !== undefined) return found[0];
  if (url !== '' && !RUNTIME.test(url)) return 'other';
  return caller === NATIVE ? EVENT_LOOP : caller;
}
