import type { Manifest } from '../format/manifest.ts';
import type { BackupSource } from '../places/place.ts';
import { readBackup } from './read-backup.ts';

/** How far a check is. */
export interface VerifyProgress {
  parts: number;
  bytes: number;
  /** Undefined while the manifest has not arrived: in a stream it may come last. */
  manifest: Manifest | undefined;
}

/** Reads a whole backup and checks every part. Resolves with its manifest if it is intact. Throws `BackupError` if not. */
export function verifyBackup(
  source: BackupSource,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress?: (progress: VerifyProgress) => void },
): Promise<Manifest> {
  const progress: VerifyProgress = { parts: 0, bytes: 0, manifest: undefined };
  return readBackup(source, (event) => {
    signal.throwIfAborted();
    if (event.kind !== 'part') return;
    progress.parts++;
    progress.bytes += event.part.bytes;
    progress.manifest = event.manifest;
    onProgress?.(progress);
  });
}
