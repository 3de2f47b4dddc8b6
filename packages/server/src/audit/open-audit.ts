import type { Clock, Log } from '@taskmaster/engine/ports';
import type { Audit } from '../ports/audit.ts';
import { AuditFile } from './audit-file.ts';
import { AuditLog } from './audit-log.ts';

/** Lines that are kept in memory. */
const MOST_RECENT = 200;

interface OpenAudit extends Audit, Disposable {
  /** The last lines about changes since the start, the oldest first. Refusals are not among them. */
  readonly recent: () => readonly string[];
}

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
  const write = opened
    ? (line: string) => opened.append(line)
    : (line: string) => log.info({ audit: JSON.parse(line) as unknown }, 'audit');
  const recent: string[] = [];
  const append = (line: string): void => {
    // Written lines begin with their time and their kind. Refusals of strangers must not push changes out.
    if (!REFUSAL.test(line)) recent.push(line);
    if (recent.length > MOST_RECENT) recent.shift();
    write(line);
  };
  const audit = new AuditLog({ clock, log, append });
  return {
    record: (event) => audit.record(event),
    recent: () => recent,
    [Symbol.dispose]() {
      audit.close();
      opened?.close();
    },
  };
}

const REFUSAL = /^\{"time":"[^"]*","kind":"refusal"/;

function openFile(path: string): AuditFile {
  try {
    return new AuditFile(path);
  } catch (cause) {
    throw new AuditFileError(path, { cause });
  }
}
