// The library below needs it.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  BasicConstraintsExtension,
  cryptoProvider,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';

cryptoProvider.set(webcrypto as never);
type Keys = webcrypto.CryptoKeyPair;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const DAY_MS = 24 * 60 * 60 * 1000;

/** A key and a certificate, in PEM. */
export interface KeyAndCertificate {
  readonly key: string;
  readonly cert: string;
}

export interface CertificateOptions {
  /** The common name. */
  readonly name: string;
  /** DNS names. */
  readonly dns?: readonly string[];
  /** IP addresses. Default: 127.0.0.1. */
  readonly ips?: readonly string[];
  readonly uris?: readonly string[];
  /** When it expires, from now on, in ms. Negative: it has expired. Default: a day. */
  readonly validMs?: number;
}

/** An authority that signs certificates, for tests. */
export class TestAuthority {
  readonly #keys: Keys;
  readonly #certificate: X509Certificate;
  #serial = 1;

  static async create(name = 'a test authority'): Promise<TestAuthority> {
    const keys = (await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as Keys;
    const certificate = await X509CertificateGenerator.createSelfSigned({
      serialNumber: '01',
      name: `CN=${name}`,
      notBefore: new Date(Date.now() - DAY_MS),
      notAfter: new Date(Date.now() + DAY_MS),
      signingAlgorithm: ALGORITHM,
      keys,
      extensions: [
        new BasicConstraintsExtension(true, 1, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      ],
    });
    return new TestAuthority(keys, certificate);
  }

  private constructor(keys: Keys, certificate: X509Certificate) {
    this.#keys = keys;
    this.#certificate = certificate;
  }

  /** Its certificate in PEM. */
  get pem(): string {
    return this.#certificate.toString('pem');
  }

  async sign(options: CertificateOptions): Promise<KeyAndCertificate> {
    const { name, dns = [], ips = ['127.0.0.1'], uris = [], validMs = DAY_MS } = options;
    const keys = (await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as Keys;
    const certificate = await X509CertificateGenerator.create({
      serialNumber: (++this.#serial).toString(16).padStart(4, '0'),
      subject: `CN=${name}`,
      issuer: this.#certificate.subject,
      notBefore: new Date(Date.now() - 2 * DAY_MS),
      notAfter: new Date(Date.now() + validMs),
      signingAlgorithm: ALGORITHM,
      publicKey: keys.publicKey,
      signingKey: this.#keys.privateKey,
      extensions: [
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
        new SubjectAlternativeNameExtension([
          ...dns.map((value) => ({ type: 'dns' as const, value })),
          ...ips.map((value) => ({ type: 'ip' as const, value })),
          ...uris.map((value) => ({ type: 'url' as const, value })),
        ]),
      ],
    });
    const pkcs8 = await webcrypto.subtle.exportKey('pkcs8', keys.privateKey);
    return { key: PemConverter.encode(pkcs8, 'PRIVATE KEY'), cert: certificate.toString('pem') };
  }
}

/** Files of a certificate, its key and its authority, in a directory of their own. */
export interface CertificateFiles extends AsyncDisposable {
  readonly dir: string;
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
  /** Replaces files. */
  write(files: Partial<KeyAndCertificate & { readonly ca: string }>): Promise<void>;
}

export async function certificateFiles({ key, cert }: KeyAndCertificate, ca: string): Promise<CertificateFiles> {
  const dir = await mkdtemp(join(tmpdir(), 'taskmaster-certificates-'));
  const paths = { certFile: join(dir, 'tls.crt'), keyFile: join(dir, 'tls.key'), caFile: join(dir, 'ca.crt') };
  const write: CertificateFiles['write'] = async (files) => {
    if (files.cert !== undefined) await writeFile(paths.certFile, files.cert);
    if (files.key !== undefined) await writeFile(paths.keyFile, files.key, { mode: 0o600 });
    if (files.ca !== undefined) await writeFile(paths.caFile, files.ca);
  };
  await write({ key, cert, ca });
  return { dir, ...paths, write, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
}
