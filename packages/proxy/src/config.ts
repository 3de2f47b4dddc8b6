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
import { DEFAULT_ROUTER_LIMITS } from './router/router.ts';

/**
 * Every setting of a proxy, with its meaning, default and bounds; units are in the names. Named like those of a node:
 * `router.holdMs` in the file is `TASKMASTER_ROUTER_HOLD_MS` in the environment and `--router-hold-ms` as a flag.
 */
const proxyConfigSchema = z.strictObject({
  join: addresses('gRPC addresses of members of the cluster, host:port, separated by commas. One is enough.'),
  host: text('Address to listen on, for gRPC and HTTP. 0.0.0.0: every IPv4 address of the machine.', '127.0.0.1'),
  grpcPort: port('Port of the service itself. 0: any free port.', 7500),
  httpPort: port('Port of health and metrics. 0: any free port.', 7501),
  logLevel: choice(
    'What is logged, as JSON on standard error.',
    ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    'info',
  ),
  stopGraceMs: ms({
    about: 'How long what is in flight may take to finish when the proxy is told to stop.',
    default: 10_000,
    min: 0,
    max: 10 * 60 * 1000,
  }),
  gossipPort: port('UDP port of gossip. 0: any free port.', 7502),
  name: optionalText('What members call it. Empty: the name of the machine, and the port.'),
  cluster: z.strictObject(clusterFields).prefault({}),
  router: z
    .strictObject({
      holdMs: ms({
        about: 'How long a call is held while its group moves to another node, or its node restarts.',
        default: DEFAULT_ROUTER_LIMITS.holdMs,
        min: 0,
        max: 60_000,
      }),
      heldCalls: count({
        about: 'Calls held at once; more are refused at once.',
        default: DEFAULT_ROUTER_LIMITS.heldCalls,
        min: 0,
        max: 1_000_000,
      }),
      fanOutMs: ms({
        about: 'How long one node may take when all are asked, for listings and statistics.',
        default: DEFAULT_ROUTER_LIMITS.fanOutMs,
        min: 10,
        max: 60_000,
      }),
    })
    .prefault({}),
  grpc: grpcSection,
});

/** The settings of a proxy, all of them decided. */
export type ProxyConfig = z.output<typeof proxyConfigSchema>;

/** Some of the settings; the rest have their defaults. */
export type ProxyConfigInput = z.input<typeof proxyConfigSchema>;

export const proxySettings: SettingsTable<ProxyConfig> = settingsTable(proxyConfigSchema, 'a TaskMaster proxy');

/** Decides the settings that are not given. Throws `InvalidConfigError`. */
export function completeProxyConfig(config: ProxyConfigInput): ProxyConfig {
  const parsed = proxyConfigSchema.safeParse(config);
  if (parsed.success) return parsed.data;
  throw new InvalidConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`));
}
