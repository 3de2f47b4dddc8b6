import type { Log } from '../ports/log.ts';

/** A log that keeps its lines. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: keyof Log; readonly details: object; readonly message: string }[];
}

export function keptLog(): KeptLog {
  const lines: KeptLog['lines'] = [];
  const keep = (level: keyof Log) => (details: object, message: string) => void lines.push({ level, details, message });
  return { lines, debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') };
}
