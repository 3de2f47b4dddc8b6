import { limits } from '@taskmaster/proto';
import { type AvailableMemory, availableMemory, divideMemory, GIB } from '@taskmaster/server/memory';
import {
  AUTO,
  accessFields,
  addresses,
  auditSection,
  choice,
  chosenBytes,
  clusterFields,
  count,
  grpcSection,
  httpFields,
  InvalidConfigError,
  limitConnections,
  memoryField,
  ms,
  ONCE,
  optionalText,
  port,
  type SettingsTable,
  settingsTable,
  text,
  tlsFields,
  WAITING_PART,
} from '@taskmaster/server/program';
import { z } from 'zod';
import { type ProxyMemory, type ProxyPart, proxyMemorySpec } from './memory.ts';
import { DEFAULT_ROUTER_LIMITS } from './router/routing/router.ts';
import { DEFAULT_SCALER_LIMITS } from './scaler/scaler.ts';

/**
 * All settings of a proxy with meaning, default and bounds. They have three names as the settings of a node do:
 * `router.holdTimeoutMs` in the file is `TASKMASTER_ROUTER_HOLD_TIMEOUT_MS` in the environment and
 * `--router-hold-timeout-ms` as a flag.
 */
const proxyConfigSchema = z.strictObject({
  join: addresses(
    'gRPC addresses of members of the cluster, as host:port, separated by commas. One address is enough.',
  ),
  memory: memoryField,
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
  ...accessFields,
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
      maxInFlightBytes: chosenBytes({
        about:
          'Bytes of the requests that the proxy forwards at the same time. More are refused. auto: a part of memory.',
        min: 2 * limits.requestBytes,
        max: 16 * GIB,
      }),
    })
    .prefault({}),
  scaler: z
    .strictObject({
      pollIntervalMs: ms({
        about:
          'How often the proxy reads a queue or pattern that streams of autoscalers watch. All streams of one queue share a read.',
        default: DEFAULT_SCALER_LIMITS.pollIntervalMs,
        min: 100,
        max: 60_000,
      }),
      maxStreams: count({
        about: 'Streams of autoscalers that are open at the same time. More are refused with TOO_MANY_WAITERS.',
        default: DEFAULT_SCALER_LIMITS.maxStreams,
        min: 0,
        max: 100_000,
      }),
    })
    .prefault({}),
  audit: auditSection,
  grpc: grpcSection,
  ...tlsFields,
  http: z.strictObject(httpFields).prefault({}),
});

/** All settings of a proxy. Sizes may be `auto`. */
export type ProxySettings = z.output<typeof proxyConfigSchema>;

/** All settings of a proxy, with all sizes. */
export interface ProxyConfig extends Omit<ProxySettings, 'memory' | 'router' | 'grpc'> {
  readonly memory: number;
  readonly router: ProxySettings['router'] & { readonly maxInFlightBytes: number };
  readonly grpc: ProxySettings['grpc'] & { readonly maxUnreadReplyBytes: number; readonly maxWaitingBytes: number };
}

/** Some of the settings. The others have their defaults. */
export type ProxyConfigInput = z.input<typeof proxyConfigSchema>;

export const proxySettings: SettingsTable<ProxySettings> = settingsTable(
  proxyConfigSchema,
  'a TaskMaster proxy',
  (settings) => divideProxyMemory(settings),
  ({ join }) => (join.length === 0 ? '--join is missing: name a node of the cluster, as --join host:port' : undefined),
);

/** The settings with defaults for missing ones, and the division of the memory. @throws InvalidConfigError. */
export function completeProxyConfig(
  config: ProxyConfigInput,
  available?: AvailableMemory,
): { readonly config: ProxyConfig; readonly memory: ProxyMemory } {
  const parsed = proxyConfigSchema.safeParse(config, ONCE);
  if (!parsed.success) {
    throw new InvalidConfigError(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`));
  }
  const settings = parsed.data;
  const memory = divideProxyMemory(settings, available);
  if (memory.kind === 'refused') throw new InvalidConfigError([`memory: ${memory.problem}`]);
  const { parts } = memory;
  const router = { ...settings.router, maxInFlightBytes: parts['router.maxInFlightBytes'] };
  const grpc = {
    ...settings.grpc,
    maxUnreadReplyBytes: parts['grpc.maxUnreadReplyBytes'],
    maxWaitingBytes: chosen(settings.grpc.maxWaitingBytes) ?? Math.floor(memory.memory * WAITING_PART),
  };
  return { config: limitConnections({ ...settings, memory: memory.memory, router, grpc }), memory };
}

function divideProxyMemory(
  { memory, router, grpc }: ProxySettings,
  available: AvailableMemory = availableMemory(),
): ReturnType<typeof divideMemory<ProxyPart>> {
  const parts = {
    'router.maxInFlightBytes': chosen(router.maxInFlightBytes),
    'grpc.maxUnreadReplyBytes': chosen(grpc.maxUnreadReplyBytes),
  };
  return divideMemory(proxyMemorySpec, { memory: chosen(memory), parts }, available);
}

const chosen = (size: number | typeof AUTO): number | undefined => (size === AUTO ? undefined : size);
