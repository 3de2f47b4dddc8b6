/** Time in which a thread waited. */
export const IDLE = 'idle';

/** Whose code a function is, by the address of its source; the first that fits counts. */
const AREAS: readonly (readonly [string, RegExp])[] = [
  ['protobuf', /\/packages\/proto\/|@bufbuild/],
  ['grpc-js', /@grpc[/+]grpc-js/],
  ['node: gRPC service', /\/packages\/node\/dist\/grpc\//],
  ['node: engine', /\/packages\/node\/dist\/(engine|domain)\/|@js-sdsl/],
  ['node: commit log', /\/packages\/node\/dist\/log\//],
  ['node: store', /\/packages\/node\/dist\/(store|ports|metered-store)|@nxtedition/],
  ['node: rest', /\/packages\/node\//],
  ['client', /\/packages\/client\//],
  ['load generator', /\/bench\//],
  ['http2', /^node:(internal\/)?http2/],
  ['sockets and streams', /^node:(internal\/)?(net|streams?|stream_base_commons)\b/],
  ['node runtime', /^node:/],
];

/** Where the profiler puts time that is nobody's function. */
const NOBODYS: ReadonlyMap<string, string> = new Map([
  ['(garbage collector)', 'garbage collection'],
  ['(program)', 'native'],
  ['(idle)', IDLE],
  ['(root)', 'native'],
]);

/** The area of a function; undefined for those without a source, such as C++: they count for whoever called them. */
export function areaOf(functionName: string, url: string): string | undefined {
  const nobodys = NOBODYS.get(functionName);
  if (nobodys !== undefined) return nobodys;
  if (url === '') return undefined;
  return AREAS.find(([, pattern]) => pattern.test(url))?.[0] ?? 'other';
}
