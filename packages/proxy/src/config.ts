import {
  addresses,
  choice,
  clusterFields,
  count,
  grpcSection,
  InvalidConfigError,
  ms,
  optionalText,
  port,
  type SettingsTable,
  settingsTable,
  text,
} from '@taskmaster/server/program';
import { z } from 'zod';
import { DEFAULT_ROUTER_LIMITS } from './router/routing/router.ts';

/**
 * All settings of a proxy with meaning, default and bounds. They have three names as the settings of a node do:
 * `router.holdTimeoutMs` in the file is `TASKMASTER_ROUTER_HOLD_TIMEOUT_MS` in the environment and
 * `--router-hold-timeout-ms` as a flag.
 */
const proxyConfigSchema = z.strictObject({
  join: addresses(
    'gRPC addresses of members of the cluster, as host:port, separated by commas. One address is enough.',
  ),
  host: text('Address to listen on. 0.0.0.0: all IPv4 addresses of the machine.', '127.0.0.1'),
  grpcPort: port('Port of gRPC. 0: any free port.', 7500),
  httpPort: port('Port of HTTP: health and metrics. 0: any free port.', 7501),
  logLevel: choice(
    'Level of the log, which is JSON on standard error.',
    ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    'info',
  ),
  shutdownTimeoutMs: ms({
    about: 'How long running requests may take to finish on shutdown.',
    default: 10_000,
    min: 0,
    max: 10 * 60 * 1000,
  }),
  gossipPort: port('UDP port of gossip. 0: any free port.', 7502),
  name: optionalText('Name of the proxy in the cluster. Empty: the host name of the machine and the gRPC port.'),
  cluster: z.strictObject(clusterFields).prefault({}),
  router: z
    .strictObject({
      holdTimeoutMs: ms({
        about: 'How long the proxy holds a call while its group moves to another node or its node restarts.',
        default: DEFAULT_ROUTER_LIMITS.holdTimeoutMs,
        min: 0,
        max: 60_000,
      }),
      maxHeldCalls: count({
        about: 'Calls that the proxy holds at the same time. More are refused immediately.',
        default: DEFAULT_ROUTER_LIMITS.maxHeldCalls,
        min: 0,
        max: 1_000_000,
      }),
      fanOutTimeoutMs: ms({
        about: 'How long each node may take to answer requests that go to all nodes: listings and statistics.',
        default: DEFAULT_ROUTER_LIMITS.fanOutTimeoutMs,
        min: 10,
        max: 60_000,
      }),
    })
    .prefault({}),
  grpc: grpcSection,
});

/** All settings of a proxy, complete. */
export type ProxyConfig = z.output<typeof proxyConfigSchema>;

/** Some of the settings. The others have their defaults. */
export type ProxyConfigInput = z.input<typeof proxyConfigSchema>;

export const proxySettings: SettingsTable<ProxyConfig> = settingsTable(proxyConfigSchema, 'a TaskMaster proxy');

/** The settings with defaults for missing ones. @throws InvalidConfigError. */
export function completeProxyConfig(config: ProxyConfigInput): ProxyConfig {
  const parsed = proxyConfigSchema.safeParse(config);
  if (parsed.success) return parsed.data;
  throw new InvalidConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`));
}
