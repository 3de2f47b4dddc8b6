import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node';

/** A port of a Service's own address, with the endpoints that serve it. */
export interface ServicePort {
  readonly address: string;
  readonly port: number;
  /** Ready endpoints, `host:port`. */
  readonly targets: readonly string[];
}

interface Endpoint {
  readonly address: string;
  /** The pod's host name if the Service governs it. */
  readonly hostname: string | undefined;
}

const isHeadless = ({ spec }: V1Service): boolean => spec?.clusterIP === 'None';

const slicesOf = (service: V1Service, slices: readonly V1EndpointSlice[]): V1EndpointSlice[] =>
  slices.filter(
    ({ metadata }) =>
      metadata?.namespace === service.metadata?.namespace &&
      metadata?.labels?.['kubernetes.io/service-name'] === service.metadata?.name,
  );

/** The endpoints that get traffic. With `publishNotReadyAddresses` the control plane calls all of them ready. */
function readyEndpoints(slice: V1EndpointSlice): Endpoint[] {
  return (slice.endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .flatMap(({ addresses, hostname }) => addresses.map((address) => ({ address, hostname })));
}

/** The TCP ports of all Services with an address. */
export function servicePorts(services: readonly V1Service[], slices: readonly V1EndpointSlice[]): ServicePort[] {
  return services.flatMap((service) => {
    const address = service.spec?.clusterIP;
    if (!address || isHeadless(service)) return [];
    const ports = (service.spec?.ports ?? []).filter(({ protocol }) => protocol === undefined || protocol === 'TCP');
    return ports.map(({ name, port }) => {
      const targets = slicesOf(service, slices).flatMap((slice) => {
        const inner = (slice.ports ?? []).find((candidate) => (candidate.name ?? '') === (name ?? ''))?.port;
        return inner === undefined ? [] : readyEndpoints(slice).map((endpoint) => `${endpoint.address}:${inner}`);
      });
      return { address, port, targets };
    });
  });
}

/** The name of a Service or of one pod of it, in all forms that resolve in a namespace. */
function namesOf(prefix: string, service: V1Service, inNamespace: string): string[] {
  const { name = '', namespace = '' } = service.metadata ?? {};
  const full = `${prefix}${name}.${namespace}`;
  const forms = [full, `${full}.svc`, `${full}.svc.cluster.local`];
  return namespace === inNamespace ? [`${prefix}${name}`, ...forms] : forms;
}

/**
 * The lines of a hosts file that play the cluster's DNS for a namespace. A name of a headless Service stands for all its ready
 * pods.
 */
export function hostsLines(
  inNamespace: string,
  services: readonly V1Service[],
  slices: readonly V1EndpointSlice[],
): string[] {
  return services.flatMap((service) => {
    const line = (address: string, prefix = ''): string =>
      `${address} ${namesOf(prefix, service, inNamespace).join(' ')}`;
    if (!isHeadless(service)) return service.spec?.clusterIP ? [line(service.spec.clusterIP)] : [];
    const endpoints = slicesOf(service, slices).flatMap(readyEndpoints);
    return endpoints.flatMap(({ address, hostname }) => [
      line(address),
      ...(hostname ? [line(address, `${hostname}.`)] : []),
    ]);
  });
}

/**
 * The variables by which containers find the API server and, with `enableServiceLinks`, the Services of their namespace, as
 * Kubernetes sets them.
 */
export function serviceVariables(
  inNamespace: string,
  services: readonly V1Service[],
  enableServiceLinks: boolean,
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const service of services) {
    const { name: serviceName = '', namespace } = service.metadata ?? {};
    const isWanted =
      (serviceName === 'kubernetes' && namespace === 'default') || (enableServiceLinks && namespace === inNamespace);
    const address = service.spec?.clusterIP;
    const [first] = service.spec?.ports ?? [];
    if (!isWanted || !address || isHeadless(service) || !first) continue;
    const prefix = serviceName.toUpperCase().replaceAll('-', '_');
    found[`${prefix}_SERVICE_HOST`] = address;
    found[`${prefix}_SERVICE_PORT`] = String(first.port);
    found[`${prefix}_PORT`] = `${(first.protocol ?? 'TCP').toLowerCase()}://${address}:${first.port}`;
    for (const { name, port, protocol = 'TCP' } of service.spec?.ports ?? []) {
      if (name) found[`${prefix}_SERVICE_PORT_${name.toUpperCase().replaceAll('-', '_')}`] = String(port);
      const port_ = `${prefix}_PORT_${port}_${protocol}`;
      found[port_] = `${protocol.toLowerCase()}://${address}:${port}`;
      found[`${port_}_PROTO`] = protocol.toLowerCase();
      found[`${port_}_PORT`] = String(port);
      found[`${port_}_ADDR`] = address;
    }
  }
  return found;
}
