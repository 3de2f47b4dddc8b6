import { limits } from '@taskmaster/proto';
import { z } from 'zod';
import { bytes, count, flag, GIB, LONGEST_TIMER_MS, MIB, ms, optionalText } from './config-fields.ts';

/** Of the gRPC server, a node's or a proxy's. */
export const grpcSection = z
  .strictObject({
    keepaliveTimeMs: ms({
      about: 'Idle connections are pinged this often.',
      default: 60_000,
      min: 1_000,
      max: LONGEST_TIMER_MS,
    }),
    keepaliveTimeoutMs: ms({
      about: 'A connection whose ping stays unanswered for so long is closed.',
      default: 20_000,
      min: 100,
      max: LONGEST_TIMER_MS,
    }),
    maxConnectionAgeMs: ms({
      about: 'Connections end after about so long, so that clients spread over the nodes anew. 0: never.',
      default: 0,
      min: 0,
      max: LONGEST_TIMER_MS,
    }),
    maxConnectionAgeGraceMs: ms({
      about: 'How long calls on a connection that reached its age may still take.',
      default: 30_000,
      min: 0,
      max: LONGEST_TIMER_MS,
    }),
    maxCallsPerConnection: count({
      about:
        'Calls at once on one connection, half of which may be leases that wait for tasks; more of those are refused as TOO_MANY_WAITERS. A stream counts as one, whatever it carries.',
      default: 2_000,
      min: 2,
      max: 1_000_000,
    }),
    maxUnreadReplyBytes: bytes({
      about:
        'Memory for replies that clients do not read. Beyond it, and beyond a quarter of it each, they are cut off.',
      default: 256 * MIB,
      min: 8 * limits.requestBytes,
      max: 16 * GIB,
    }),
    reflection: flag('Lets grpcurl and similar tools discover the service.', true),
  })
  .prefault({});

/** What a node and a proxy of a cluster both need. */
export const clusterFields = {
  keyFile: optionalText(
    'File of cluster keys, one in a line: the first seals what members tell each other, all are accepted. Empty: anybody in the network may join.',
  ),
  advertiseHost: optionalText(
    'Name or IPv4 address others reach this machine at; a name may change its address. Empty: the address it listens on, or the first of the machine.',
  ),
} as const;

/** Everything that is wrong with the settings, so that it can be put right at once. */
export class InvalidConfigError extends Error {
  override readonly name = 'InvalidConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`invalid configuration: ${problems.join('; ')}`);
    this.problems = problems;
  }
}
