import type { Log } from '@taskmaster/engine/ports';
import { type AccessSettings, hasAccessRules } from '../access/access-settings.ts';
import { isLoopbackHost } from '../calls/host-port.ts';
import { hasTls, type TlsSettings } from '../tls/tls-files.ts';
import { InvalidConfigError } from './config-sections.ts';

/** The settings that decide who can reach a program, and what protects it. */
export interface ExposureSettings {
  readonly host: string;
  readonly join: readonly string[];
  /** Undefined or false: the program is a node without a cluster, unless it joins one. */
  readonly bootstrap?: boolean;
  readonly cluster: { readonly keyFile: string; readonly advertiseHost: string };
  readonly access: AccessSettings;
  readonly tls: TlsSettings;
  readonly insecure: boolean;
}

/** What makes a program insecure, one line each. Empty: it is only reachable from this machine, or protected. */
export function exposureOf({ host, join, bootstrap, cluster, access, tls }: ExposureSettings): readonly string[] {
  const open = [host, cluster.advertiseHost].filter((one) => one !== '' && !isLoopbackHost(one));
  const isClustered = bootstrap === true || join.length > 0;
  const isEncrypted = hasTls(tls);
  const knowsCallers = hasAccessRules(access) || (isEncrypted && tls.clientCertificates === 'required');
  const problems: string[] = [];
  if (open.length > 0 && !isEncrypted)
    problems.push(`other machines reach ${open.join(', ')}, and without tls.certFile everything is sent in plain text`);
  if (open.length > 0 && !knowsCallers) {
    problems.push(`other machines reach ${open.join(', ')}, and without access.file every caller may do everything`);
  }
  const elsewhere = join.filter((address) => !isLoopbackHost(address.slice(0, address.lastIndexOf(':'))));
  if (isClustered && cluster.keyFile === '' && (open.length > 0 || elsewhere.length > 0)) {
    problems.push('without cluster.keyFile any machine on the network can act as a member of the cluster');
  }
  return problems;
}

/**
 * Refuses settings with which other machines could do everything, unless `insecure` says that this is wanted. @throws
 * InvalidConfigError
 */
export function assertSecure(settings: ExposureSettings): void {
  const { access, cluster, join, bootstrap, insecure } = settings;
  const isClustered = bootstrap === true || join.length > 0;
  if (isClustered && hasAccessRules(access) && cluster.keyFile === '') {
    throw new InvalidConfigError([
      'cluster.keyFile: is needed beside access.file: members and proxies tell each other who the callers are, sealed with the key',
    ]);
  }
  const problems = insecure ? [] : exposureOf(settings);
  if (problems.length === 0) return;
  throw new InvalidConfigError([
    ...problems,
    'set what is missing (docs/operate/security.md), or accept this with --insecure',
  ]);
}

/** Says at each start what is insecure. */
export function warnOfExposure(settings: ExposureSettings, log: Log): void {
  for (const problem of exposureOf(settings)) log.warn({ insecure: true }, `insecure: ${problem}`);
}
