import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import { type ChannelCredentials, credentials, experimental } from '@grpc/grpc-js';
import { checkAddressOrName } from '@taskmaster/proto';
import { assertKnown, type OptionNames } from '../../values/known-options.ts';
import type { TlsOptions } from '../../values/options.ts';

/** How often files are read again, in ms. */
const REFRESH_MS = 1_000;

const verification = { checkServerIdentity: checkAddressOrName };

const tlsNames: OptionNames<TlsOptions> = {
  ca: true,
  caFile: true,
  cert: true,
  key: true,
  certFile: true,
  keyFile: true,
  serverName: true,
};

/** The credentials of channels. @throws Error if a file cannot be read, TypeError for options that do not go together. */
export function channelCredentials(tls: TlsOptions | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  assertKnown('tls', tls, tlsNames);
  const { caFile, certFile, keyFile } = tls;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new TypeError('tls: certFile and keyFile go together');
  }
  if ((tls.ca !== undefined && caFile !== undefined) || (tls.cert !== undefined && certFile !== undefined)) {
    throw new TypeError('tls: give a certificate or its file, not both');
  }
  if (caFile === undefined && certFile === undefined) {
    return credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert), verification);
  }
  for (const file of [caFile, certFile, keyFile]) if (file !== undefined) readFileSync(file);
  const files = new experimental.FileWatcherCertificateProvider({
    caCertificateFile: caFile,
    certificateFile: certFile,
    privateKeyFile: keyFile,
    refreshIntervalMs: REFRESH_MS,
  });
  const authorities = caFile === undefined ? fixedAuthorities(tls.ca) : files;
  return experimental.createCertificateProviderChannelCredentials(
    authorities,
    certFile === undefined ? null : files,
    verification,
  );
}

/** Authorities that do not change. */
function fixedAuthorities(ca: Uint8Array | undefined): experimental.CertificateProvider {
  const caCertificate = Buffer.from(ca ?? rootCertificates.join('\n'));
  return {
    addCaCertificateListener: (listener) => listener({ caCertificate }),
    removeCaCertificateListener() {},
    addIdentityCertificateListener() {},
    removeIdentityCertificateListener() {},
  };
}

function pem(bytes: Uint8Array | undefined): Buffer | null {
  return bytes === undefined ? null : Buffer.from(bytes);
}
