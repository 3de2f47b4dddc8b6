import type { Clock, Log } from '@taskmaster/engine/ports';
import type { Audit } from '../ports/audit.ts';
import { AuditFile } from './audit-file.ts';
import { AuditLog } from './audit-log.ts';

interface OpenAudit extends Audit, Disposable {}

/** The file of the audit log cannot be opened. */
class AuditFileError extends Error {
  override readonly name = 'AuditFileError';

  constructor(path: string, options: { readonly cause: unknown }) {
    const { cause } = options;
    super(`audit.file: ${path} cannot be opened: ${cause instanceof Error ? cause.message : String(cause)}`, options);
  }
}

/** Opens the audit log. `file` empty: the log of the program. Throws `AuditFileError`. */
export function openAudit(file: string, clock: Pick<Clock, 'wall' | 'now' | 'at'>, log: Log): OpenAudit {
  const opened = file === '' ? undefined : openFile(file);
  const append = opened
    ? (line: string) => opened.append(line)
    : (line: string) => log.info({ audit: JSON.parse(line) as unknown }, 'audit');
  const audit = new AuditLog({ clock, log, append });
  return {
    record: (event) => audit.record(event),
    [Symbol.dispose]() {
      audit.close();
      opened?.close();
    },
  };
}

function openFile(path: string): AuditFile {
  try {
    return new AuditFile(path);
  } catch (cause) {
    throw new AuditFileError(path, { cause });
  }
}
