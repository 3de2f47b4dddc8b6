import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { readPlainFile, readPrivateFile } from '../ports/private-file.ts';

/** Settings of TLS. Empty texts: not set. */
export interface TlsSettings {
  /** Certificate of this program in PEM, with the intermediate ones behind it. Empty: the program speaks plain text. */
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificates of the CAs that sign the certificates of members and clients. */
  readonly caFile: string;
  /** Whether clients show certificates. Those that they show must be signed by a CA of `caFile`. */
  readonly clientCertificates: 'none' | 'optional' | 'required';
  readonly minVersion: '1.2' | '1.3';
  /** A DNS name in the certificate of every member, called or calling. Empty: the name or address at which a member is called. */
  readonly peerName: string;
}

/** The contents of the files, checked. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  /** Undefined: certificates of others are checked with the CAs that Node.js knows. */
  readonly ca: string | undefined;
  /** When the certificate of this program expires, in ms since 1970. */
  readonly expiresAt: number;
}

/** The files of TLS cannot be used. */
export class TlsFileError extends Error {
  override readonly name = 'TlsFileError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('; '));
    this.problems = problems;
  }
}

/** Whether the program speaks TLS. */
export const hasTls = ({ certFile, keyFile }: TlsSettings): boolean => certFile !== '' || keyFile !== '';

/** Reads and checks the files. `now`: ms since 1970. @throws TlsFileError with all problems. */
export function readTlsFiles(settings: TlsSettings, now: number): TlsMaterial {
  const problems: string[] = [];
  const read = (setting: 'certFile' | 'keyFile' | 'caFile', reader: (path: string) => string): string | undefined => {
    const path = settings[setting];
    if (path === '') {
      problems.push(`tls.${setting}: is needed beside tls.${setting === 'certFile' ? 'keyFile' : 'certFile'}`);
      return undefined;
    }
    try {
      return reader(path);
    } catch (error) {
      problems.push(`tls.${setting}: ${messageOf(error)}`);
      return undefined;
    }
  };
  const cert = read('certFile', readPlainFile);
  const key = read('keyFile', readPrivateFile);
  const ca = settings.caFile === '' ? undefined : read('caFile', readPlainFile);
  if (settings.caFile === '' && settings.clientCertificates === 'required') {
    problems.push('tls.caFile: is needed to check the certificates of clients (tls.clientCertificates: required)');
  }
  if (settings.peerName !== '' && (settings.caFile === '' || settings.clientCertificates === 'none')) {
    problems.push(
      'tls.peerName: needs tls.caFile, and tls.clientCertificates optional or required, to check the members that call',
    );
  }
  const certificate =
    cert === undefined ? undefined : parsed('certFile', settings, problems, () => new X509Certificate(cert));
  const privateKey = key === undefined ? undefined : parsed('keyFile', settings, problems, () => createPrivateKey(key));
  if (ca !== undefined) parsed('caFile', settings, problems, () => new X509Certificate(ca));
  if (certificate !== undefined) {
    const { validFromDate, validToDate } = certificate;
    if (validToDate.getTime() <= now) {
      problems.push(
        `tls.certFile: the certificate in ${settings.certFile} has expired at ${validToDate.toISOString()}`,
      );
    } else if (validFromDate.getTime() > now) {
      const from = validFromDate.toISOString();
      problems.push(`tls.certFile: the certificate in ${settings.certFile} is not valid before ${from}`);
    }
    if (privateKey !== undefined && !certificate.checkPrivateKey(privateKey)) {
      problems.push(
        `tls.keyFile: the key in ${settings.keyFile} does not belong to the certificate in ${settings.certFile}`,
      );
    }
  }
  if (problems.length === 0 && cert !== undefined && key !== undefined) {
    parsed('certFile', settings, problems, () => createSecureContext({ cert, key, ca }));
  }
  if (problems.length > 0 || cert === undefined || key === undefined || certificate === undefined) {
    throw new TlsFileError(problems);
  }
  return { cert, key, ca, expiresAt: certificate.validToDate.getTime() };
}

function parsed<T>(
  setting: 'certFile' | 'keyFile' | 'caFile',
  settings: TlsSettings,
  problems: string[],
  parse: () => T,
): T | undefined {
  try {
    return parse();
  } catch (error) {
    problems.push(`tls.${setting}: ${settings[setting]} is not valid PEM: ${messageOf(error)}`);
    return undefined;
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
