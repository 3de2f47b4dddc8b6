import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import type { MemberSettings } from './cluster/open-member.ts';
import { isOwnAddress } from './cluster/own-address.ts';
import type { StandingSettings } from './cluster/standing.ts';
import { InvalidConfig, type NodeConfig } from './config.ts';

/** Shorter ones can be guessed. */
const KEY_CHARACTERS = 16;

/** The keys in a file, one in a line; lines that begin with # are remarks. Throws `InvalidConfig`. */
export function readClusterKeys(keyFile: string): readonly string[] {
  if (keyFile === '') return [];
  let text: string;
  try {
    text = readFileSync(keyFile, 'utf8');
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new InvalidConfig([`cluster.keyFile: cannot be read: ${problem}`]);
  }
  const keys = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (keys.length === 0) throw new InvalidConfig([`cluster.keyFile: ${keyFile} has no key`]);
  if (keys.some((key) => key.length < KEY_CHARACTERS)) {
    throw new InvalidConfig([`cluster.keyFile: a key in ${keyFile} is shorter than ${KEY_CHARACTERS} characters`]);
  }
  return keys;
}

export function standingSettings(config: NodeConfig): StandingSettings {
  const { name, bootstrap, join, host, grpcPort, cluster } = config;
  const own = {
    ...{ listenHost: host, grpcPort, names: [name, hostname(), cluster.advertiseHost] },
    machine: Object.values(networkInterfaces()).flatMap((of) => of?.map(({ address }) => address) ?? []),
  };
  const [first] = join;
  return { name, defaultName: hostname(), bootstrap, join, isFirst: first !== undefined && isOwnAddress(first, own) };
}

export function memberSettings(
  { host, gossipPort, join, cluster }: NodeConfig,
  rest: Pick<MemberSettings, 'grpcPort' | 'httpPort' | 'keys' | 'version'>,
): MemberSettings {
  const { advertiseHost, transfersAtOnce, transferBytesPerSecond } = cluster;
  return { ...rest, listen: { host, port: gossipPort }, join, advertiseHost, transfersAtOnce, transferBytesPerSecond };
}
