import { limits } from '@taskmaster/proto';
import { z } from 'zod';
import { choice, chosenBytes, count, flag, LONGEST_TIMER_MS, ms, optionalText, texts } from './config-fields.ts';
import { GIB, MIB } from './memory/sizes.ts';

/** The part of a program's memory for the names of queues for which calls wait. */
export const WAITING_PART = 1 / 16;

/** Settings of the gRPC server of a node or a proxy. */
export const grpcSection = z
  .strictObject({
    keepaliveTimeMs: ms({
      about: 'How often an idle connection is pinged.',
      default: 60_000,
      min: 1_000,
      max: LONGEST_TIMER_MS,
    }),
    keepaliveTimeoutMs: ms({
      about: 'A connection is closed if a ping has no answer for this time.',
      default: 20_000,
      min: 100,
      max: LONGEST_TIMER_MS,
    }),
    maxConnectionAgeMs: ms({
      about: 'Connections are closed at about this age, so that clients spread over all nodes again. 0: no limit.',
      default: 0,
      min: 0,
      max: LONGEST_TIMER_MS,
    }),
    maxConnectionAgeGraceMs: ms({
      about: 'How long calls, including backups, may still run on a connection that has reached its maximum age.',
      default: 30_000,
      min: 0,
      max: LONGEST_TIMER_MS,
    }),
    maxConcurrentCallsPerConnection: count({
      about:
        'Calls that run at the same time on one connection. A stream counts as one call. Half of the calls may wait: lease requests for tasks, and streams of autoscalers; more of them are refused with TOO_MANY_WAITERS.',
      default: 2_000,
      min: 2,
      max: 1_000_000,
    }),
    maxConnections: count({
      about:
        'Open connections of gRPC. More are refused; members of the cluster may open 32 more. 0: as many as the descriptors of the process allow beside the store, at most 10,000.',
      default: 0,
      min: 0,
      max: 1_000_000,
    }),
    maxConnectionsPerAddress: count({
      about: 'Open connections of gRPC from one address. More are refused. 0: half of maxConnections.',
      default: 0,
      min: 0,
      max: 1_000_000,
    }),
    maxUnreadReplyBytes: chosenBytes({
      about:
        'Memory for replies that clients have not read. One connection may use a quarter of it. A connection above these limits is closed. auto: a part of memory.',
      min: 8 * limits.requestBytes,
      max: 16 * GIB,
    }),
    maxWaitingBytes: chosenBytes({
      about:
        'Memory for the names of queues for which lease requests wait: a name has 200 bytes and its length. One connection may use half of it. More are refused with TOO_MANY_WAITERS. auto: a sixteenth of memory.',
      min: MIB,
      max: 16 * GIB,
    }),
    receiveTimeoutMs: ms({
      about:
        'How long a request may take from its first byte to its last. Later it is refused with DEADLINE_EXCEEDED, and has changed nothing.',
      default: 60_000,
      min: 100,
      max: LONGEST_TIMER_MS,
    }),
    reflection: flag('gRPC reflection: grpcurl and similar tools can discover the service.', true),
  })
  .prefault({});

/** Settings of who may do what, of a node or a proxy. */
export const accessFields = {
  access: z
    .strictObject({
      file: optionalText(
        'File with principals, their credentials and their rights (YAML). It is read again when it changes. With it, everything that it does not allow is denied. Empty: every caller may do everything.',
      ),
      jwt: z
        .strictObject({
          keyFile: optionalText('Public key or certificate (PEM) that checks the signatures of JWTs.'),
          jwksFile: optionalText('Set of public keys (JWKS) that checks the signatures of JWTs. Instead of keyFile.'),
          issuer: optionalText('The issuer that JWTs must have (iss).'),
          audience: optionalText('The audience that JWTs must have (aud).'),
        })
        .prefault({}),
      metrics: flag('/metrics needs a credential.', false),
      reflection: flag('gRPC reflection needs a credential.', false),
    })
    .prefault({}),
  insecure: flag(
    'Allows to listen at other addresses than loopback without TLS and authentication, and cluster members at other addresses without a cluster key. Every machine that reaches the ports can then read and destroy all data.',
    false,
  ),
} as const;

/** Settings of TLS, of a node or a proxy. */
export const tlsFields = {
  tls: z
    .strictObject({
      certFile: optionalText(
        'Certificate of the program (PEM), with intermediate ones behind it. gRPC and HTTP then speak TLS, and the program shows the certificate to members that it calls. The files of TLS are read again when they change. Empty: plain text.',
      ),
      keyFile: optionalText('Private key of the certificate (PEM).'),
      caFile: optionalText(
        'Certificates of the CAs (PEM) that sign the certificates of members and clients. Empty: members must have the certificate of certFile.',
      ),
      clientCertificates: choice(
        'Whether clients show certificates, which a CA of caFile must have signed. optional: callers without one have other credentials.',
        ['none', 'optional', 'required'],
        'optional',
      ),
      minVersion: choice('Oldest version of TLS that clients may use.', ['1.2', '1.3'], '1.3'),
      peerName: optionalText(
        'DNS name in the certificates of all members and proxies. Calls between members are refused without it. Empty: the certificate of a member has the name or address at which members call it.',
      ),
    })
    .prefault({}),
} as const;

/** Settings of HTTP that a node and a proxy share. */
export const httpFields = {
  allowedHosts: texts(
    'Further host names under which browsers may ask, separated by commas. *: every name. Addresses, localhost and the names of this program are always allowed. Requests for other names are refused with 421, because pages of other sites could read the replies (DNS rebinding).',
  ),
  maxConnections: count({
    about:
      'Open connections of HTTP. Above the limit, the one that has been idle for the longest time is closed, so that a health probe is always answered.',
    default: 200,
    min: 8,
    max: 10_000,
  }),
} as const;

/** The memory of a node or a proxy. */
export const memoryField = chosenBytes({
  about:
    'Memory of the program, which divides it among its parts. A part with a size of its own keeps that size. auto: three quarters of what the cgroup allows or half of what the machine has, but not more than the parts usually need.',
  // The division knows the least memory, which depends on the parts that are set.
  min: 1,
  max: 256 * GIB,
});

/** Settings of the cluster that a node and a proxy share. */
export const clusterFields = {
  keyFile: optionalText(
    'File of cluster keys, one per line. Members seal messages to each other with the first key and accept messages with any of them. Gossip is also encrypted. Empty: any machine on the network can join.',
  ),
  advertiseHost: optionalText(
    'Host name or IPv4 address at which members reach this machine. The address of a host name may change. Empty: the address of host, or with 0.0.0.0 the first address of the machine.',
  ),
} as const;

/** The audit log of a node or a proxy. */
export const auditSection = z
  .strictObject({
    file: optionalText(
      'File of the audit log, in lines of JSON: management calls, refusals for want of rights, changes of the membership. Only the user of the program can read it, and it may be moved at any time. Empty: the lines are in the log of the program, at level info.',
    ),
  })
  .prefault({});

/** All problems of the settings, so that an operator can correct them together. */
export class InvalidConfigError extends Error {
  override readonly name = 'InvalidConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`invalid configuration: ${problems.join('; ')}`);
    this.problems = problems;
  }
}
