import { hostname, networkInterfaces } from 'node:os';
import { isOwnAddress } from './cluster/membership/own-address.ts';
import type { StartingRoleSettings } from './cluster/membership/starting-role.ts';
import type { MemberSettings } from './cluster/open-member.ts';
import type { NodeConfig } from './config.ts';

export function startingRoleSettings(config: NodeConfig): StartingRoleSettings {
  const { name, bootstrap, join, host, grpcPort, cluster, tls, kubernetes, store } = config;
  const own = {
    listenHost: host,
    grpcPort,
    names: [name, hostname(), cluster.advertiseHost],
    machine: Object.values(networkInterfaces()).flatMap((of) => of?.map(({ address }) => address) ?? []),
  };
  const [first] = join;
  const marks = {
    // A node alone has a name in its database.
    name: store.url === '' ? name : '',
    'cluster.keyFile': cluster.keyFile,
    'cluster.advertiseHost': cluster.advertiseHost,
    'tls.peerName': tls.peerName,
    'kubernetes.clusterConfigMap': kubernetes.clusterConfigMap,
  };
  return {
    name,
    defaultName: hostname(),
    bootstrap,
    join,
    isFirst: first !== undefined && isOwnAddress(first, own),
    marks: Object.entries(marks).flatMap(([setting, value]) => (value === '' ? [] : [setting])),
  };
}

export function memberSettings(
  { host, gossipPort, join, cluster }: NodeConfig,
  rest: Pick<MemberSettings, 'grpcPort' | 'httpPort' | 'keys' | 'version'>,
): MemberSettings {
  const { advertiseHost, maxConcurrentTransfers, maxTransferBytesPerSecond } = cluster;
  return {
    ...rest,
    listen: { host, port: gossipPort },
    join,
    advertiseHost,
    maxConcurrentTransfers,
    maxTransferBytesPerSecond,
  };
}
