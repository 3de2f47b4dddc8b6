import type { Log } from '@taskmaster/engine/ports';
import { Tls } from '../tls/tls.ts';
import { hasTls, readTlsFiles, TlsFileError, type TlsSettings } from '../tls/tls-files.ts';
import { InvalidConfigError } from './config-sections.ts';

/** The certificates of a program. Undefined: it speaks plain text. @throws InvalidConfigError */
export function openTls(settings: TlsSettings, log: Log): Tls | undefined {
  return hasTls(settings) ? withProblems(() => new Tls(settings, log)) : undefined;
}

/** Reads the files of TLS, to check them. @throws InvalidConfigError */
export function checkTlsFiles(settings: TlsSettings): void {
  if (hasTls(settings)) withProblems(() => readTlsFiles(settings, Date.now()));
}

function withProblems<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof TlsFileError ? new InvalidConfigError(error.problems) : error;
  }
}
