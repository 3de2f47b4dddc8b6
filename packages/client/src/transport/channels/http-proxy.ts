import { BlockList, isIP } from 'node:net';

type Environment = Readonly<Record<string, string | undefined>>;

/** The variables that name a proxy, the first one that is set counts. gRPC reads them in this order, too. */
const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy'] as const;
const EXCEPTIONS = ['no_grpc_proxy', 'no_proxy', 'NO_PROXY'] as const;

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** The proxy of the environment, without its password. Undefined: there is none. */
export function httpProxyOf(
  env: Environment = process.env,
): { readonly variable: string; readonly host: string } | undefined {
  const variable = PROXIES.find((name) => env[name]);
  if (variable === undefined) return undefined;
  const text = env[variable] ?? '';
  return { variable, host: URL.canParse(text) ? new URL(text).host : 'an address that is no URL' };
}

/** Whether connections to an endpoint go through the proxy of the environment: not to this machine, nor to an exception. */
export function usesHttpProxy(endpoint: string, env: Environment = process.env): boolean {
  if (httpProxyOf(env) === undefined) return false;
  const { host, port } = placeOf(endpoint);
  if (host === undefined || isThisMachine(host)) return false;
  const exceptions = env[EXCEPTIONS.find((name) => env[name]) ?? ''] ?? '';
  return !exceptions
    .split(/[\s,]+/)
    .filter((exception) => exception !== '')
    .some((exception) => isExcepted(host, port, exception.toLowerCase()));
}

/** Host and port of `host:port`, `[::1]:port`, `dns:///host:port` and the like. Without a host: a socket of this machine. */
function placeOf(endpoint: string): { readonly host: string | undefined; readonly port: string | undefined } {
  if (/^unix(-abstract)?:/i.test(endpoint)) return { host: undefined, port: undefined };
  const place = endpoint.replace(/^(dns|ipv4|ipv6):(\/\/[^/]*\/)?/i, '');
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(place) ?? [];
  return { host: (bracketed ?? plain ?? place).toLowerCase(), port };
}

function isThisMachine(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || isIn(loopback, host);
}

function isExcepted(host: string, port: string | undefined, exception: string): boolean {
  if (exception === '*') return true;
  const [, address = '', prefix = ''] = /^(.*)\/(\d+)$/.exec(exception) ?? [];
  if (isIP(address) !== 0) return isIn(subnetOf(address, Number(prefix)), host);
  const named = placeOf(exception);
  if (named.port !== undefined && isIP(exception) === 0 && named.port !== port) return false;
  const name = (isIP(exception) === 0 ? (named.host ?? '') : exception).replace(/^\*?\./, '');
  return name !== '' && (host === name || (isIP(host) === 0 && host.endsWith(`.${name}`)));
}

function subnetOf(address: string, prefix: number): BlockList {
  const subnet = new BlockList();
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
  if (prefix <= (family === 'ipv4' ? 32 : 128)) subnet.addSubnet(address, prefix, family);
  return subnet;
}

/** Whether a list has an address. IPv4 addresses in IPv6 (`::ffff:127.0.0.1`) count as IPv4. */
function isIn(list: BlockList, host: string): boolean {
  const version = isIP(host);
  return version !== 0 && list.check(host, version === 4 ? 'ipv4' : 'ipv6');
}
