import { readFile, writeFile } from 'node:fs/promises';
import type { Handler, Queue } from '@taskmaster/client';
import type { AuditTask } from '../queues.ts';
import { Web } from '../web.ts';
import { type Reference, referenceCrawl } from './reference-crawl.ts';

const PID = 'audit';
/** Time between two reports of progress, and between two looks at it, in ms. */
const PROGRESS_MS = 1_000;

export const auditStage: Handler<AuditTask> = async (task) => {
  const { start, file } = task.data;
  let reportedAt = performance.now();
  const reference = await referenceCrawl(start, new Web({ pauseMs: 0 }), task.signal, async (pages) => {
    if (performance.now() - reportedAt < PROGRESS_MS) return;
    reportedAt = performance.now();
    await task.reportProgress(`${pages} pages so far`);
  });
  await writeFile(file, JSON.stringify(reference));
  return { result: reference.pages.length };
};

/** Lets a worker crawl the site in a plain loop, and shows how far it is. */
export async function audit(
  audits: Queue<AuditTask>,
  task: AuditTask,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Reference> {
  await audits.enqueue(task, { pid: PID, signal });
  const look = async (): Promise<void> => {
    const [seen] = await audits.get([PID], { data: false, signal });
    if (seen?.progress !== undefined) say(`${seen.workerLabel} reports: ${seen.progress.text}`);
  };
  const looking = setInterval(() => void look().catch(() => {}), 2 * PROGRESS_MS);
  try {
    await audits.waitFor(PID, { signal });
  } finally {
    clearInterval(looking);
  }
  return JSON.parse(await readFile(task.file, 'utf8')) as Reference;
}
