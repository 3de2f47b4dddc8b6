import { readFile } from 'node:fs/promises';
import type { LoadReport } from '../../load/report/load-report.ts';
import { mergeReports } from '../../load/report/merge-reports.ts';
import { InvalidReportError, parseReport } from '../../load/report/read-report.ts';
import { CommandFailedError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import type { Shell } from '../../views/output.ts';
import { type ReportFiles, showReport, writeReport } from './run-load.ts';

/** Joins reports and shows the result. */
export async function joinReports(shell: Shell, paths: readonly string[], flags: ReportFiles): Promise<ExitCode> {
  const reports: LoadReport[] = [];
  for (const path of paths) reports.push(await readReport(path));
  const report = explained(paths.join(', '), () => mergeReports(reports));
  await writeReport(report, flags);
  await showReport(shell, report);
  return report.verification === undefined || report.verification.kind === 'kept' ? exitCodes.ok : exitCodes.failed;
}

async function readReport(path: string): Promise<LoadReport> {
  const text = await readFile(path, 'utf8');
  return explained(path, () => parseReport(text));
}

function explained<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidReportError)) throw error;
    throw new CommandFailedError('INVALID_REPORT', `${what}: ${error.message}`, {
      exitCode: exitCodes.usage,
      cause: error,
    });
  }
}
