import { constants } from 'node:crypto';
import type { TlsOptions } from 'node:tls';
import type { Log } from '@taskmaster/engine/ports';
import { FileChanges } from '../ports/file-changes.ts';
import { readTlsFiles, TlsFileError, type TlsMaterial, type TlsSettings } from './tls-files.ts';

/** How often the files are checked for changes, in ms. */
const CHECK_MS = 500;
/** A client must finish its handshake within this time, in ms. */
const HANDSHAKE_MS = 10_000;

/** The certificate, the key and the CAs of a program. They are read again when their files change. */
export class Tls implements Disposable {
  readonly settings: TlsSettings;
  readonly #changes: FileChanges;
  readonly #listeners = new Set<() => void>();
  #material: TlsMaterial;
  #reloads = 0;
  #reloadFailed = false;

  /**
   * Reads the files and follows their changes. If changed files cannot be used, the old contents stay in use, and the log says
   * why.
   * @throws TlsFileError
   */
  constructor(settings: TlsSettings, log: Log, checkMs: number = CHECK_MS, now: () => number = Date.now) {
    this.settings = settings;
    const files = [settings.certFile, settings.keyFile, settings.caFile].filter((file) => file !== '');
    this.#changes = new FileChanges(files, checkMs, () => this.#reload(files, log, now));
    try {
      this.#material = readTlsFiles(settings, now());
    } catch (error) {
      this.#changes[Symbol.dispose]();
      throw error;
    }
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** True while changed files cannot be used. */
  get reloadFailed(): boolean {
    return this.#reloadFailed;
  }

  /** How often changed files were taken over. */
  get reloads(): number {
    return this.#reloads;
  }

  /** Calls back after each change. Returns a function that ends this. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Options of a server. */
  serverOptions(): TlsOptions {
    const { clientCertificates, minVersion } = this.settings;
    const { cert, key, ca } = this.#material;
    return {
      cert,
      key,
      ca,
      minVersion: `TLSv${minVersion}`,
      requestCert: ca !== undefined && clientCertificates !== 'none',
      // A certificate that no CA has signed is refused. Whether there must be one is decided after the handshake.
      rejectUnauthorized: clientCertificates === 'required',
      handshakeTimeout: HANDSHAKE_MS,
      // A resumed session would keep the rights of a certificate that has been replaced.
      secureOptions: constants.SSL_OP_NO_TICKET,
    };
  }

  [Symbol.dispose](): void {
    this.#changes[Symbol.dispose]();
    this.#listeners.clear();
  }

  #reload(files: readonly string[], log: Log, now: () => number): void {
    try {
      this.#material = readTlsFiles(this.settings, now());
    } catch (error) {
      const problems = error instanceof TlsFileError ? error.problems : [String(error)];
      this.#reloadFailed = true;
      log.error({ files, problems }, 'the changed certificate files cannot be used: the old ones stay in use');
      return;
    }
    this.#reloads++;
    this.#reloadFailed = false;
    log.info({ files, expires: new Date(this.#material.expiresAt).toISOString() }, 'changed certificates are in use');
    for (const listener of this.#listeners) listener();
  }
}
