import type { EngineFigures } from '@taskmaster/engine/domain';
import type { DiskSpace } from '@taskmaster/engine/ports';
import { type NodeTroubleKind, type Trouble, TroubleSeverity } from '@taskmaster/proto';
import { explainHealth, isReady, type NodeHealth } from '@taskmaster/server/http';

const DAY_MS = 86_400_000;
/** As the alerts CertificateExpiresSoon and CertificateExpiresNow, in ms. */
const SOON_MS = 14 * DAY_MS;
const NOW_MS = 2 * DAY_MS;
/** As the alert BackupTooOld, in ms. */
const OLD_BACKUP_MS = 26 * 3_600_000;
/** As the alert DiskNearlyFull. */
const NEARLY = 3;

/** What a node knows of itself. */
export interface NodeState {
  readonly health: NodeHealth;
  /** Undefined: unknown. */
  readonly space: DiskSpace | undefined;
  /** When its certificate expires, in ms since 1970. Undefined: it has none. */
  readonly expiresAt: number | undefined;
  /** What could not be read again: `tls`, `access`. */
  readonly reloadsFailed: readonly string[];
  readonly figures: Pick<EngineFigures, 'backedUpAt' | 'backupFailure' | 'schedulesAhead'> | undefined;
}

const { TROUBLE_SEVERITY_CRITICAL: CRITICAL, TROUBLE_SEVERITY_WARNING: WARNING } = TroubleSeverity;

interface Found {
  readonly kind: NodeTroubleKind;
  readonly severity: TroubleSeverity;
  readonly message: string;
  /** In ms since 1970. Undefined: since the look that has found it first. */
  readonly since?: number;
}

/** Finds what is wrong with this node, and since when. Its limits are those of the alerts. */
export class NodeTroubles {
  readonly #began = new Map<string, { readonly at: number; readonly isExact: boolean }>();
  #isFirst = true;

  /** `now`: the system clock. */
  look(state: NodeState, now: number): Trouble[] {
    const found = troublesOf(state, now);
    const kinds = new Set<string>(found.map(({ kind }) => kind));
    for (const kind of this.#began.keys()) if (!kinds.has(kind)) this.#began.delete(kind);
    const troubles = found.map(({ kind, severity, message, since }) => {
      const known = since === undefined ? undefined : { at: since, isExact: true };
      const began = known ?? this.#began.get(kind) ?? { at: now, isExact: !this.#isFirst };
      this.#began.set(kind, began);
      return { kind, severity, message, sinceUnixMs: Math.floor(began.at), sinceIsExact: began.isExact, queue: '' };
    });
    this.#isFirst = false;
    return troubles;
  }
}

function troublesOf({ health, space, expiresAt, reloadsFailed, figures }: NodeState, now: number): Found[] {
  const found: Found[] = [];
  if (!isReady(health)) found.push({ kind: 'node-not-serving', severity: CRITICAL, message: explainHealth(health) });
  if (space !== undefined) found.push(...ofDisk(space, health.kind === 'full'));
  if (expiresAt !== undefined && expiresAt - now < SOON_MS) {
    const at = new Date(expiresAt).toISOString();
    const message = `its certificate ${expiresAt < now ? 'has expired' : 'expires'} at ${at}`;
    const severity = expiresAt - now < NOW_MS ? CRITICAL : WARNING;
    found.push({ kind: 'certificate', severity, message, since: expiresAt - SOON_MS });
  }
  if (reloadsFailed.length > 0) {
    const message = `changed files cannot be used, and the old ones stay in force: ${reloadsFailed.join(', ')}`;
    found.push({ kind: 'reload', severity: WARNING, message });
  }
  const { backedUpAt, backupFailure, schedulesAhead = 0 } = figures ?? {};
  if (backupFailure !== undefined) {
    const { at, problem } = backupFailure;
    found.push({ kind: 'backup-failed', severity: WARNING, message: `the last backup failed: ${problem}`, since: at });
  }
  if (backedUpAt !== undefined && now - backedUpAt > OLD_BACKUP_MS) {
    const message = `the last backup of its partitions began at ${new Date(backedUpAt).toISOString()}`;
    found.push({ kind: 'backup', severity: WARNING, message, since: backedUpAt + OLD_BACKUP_MS });
  }
  if (schedulesAhead > 0) {
    const message = `${schedulesAhead} schedules wait, because its clock was set back`;
    found.push({ kind: 'schedules-late', severity: WARNING, message });
  }
  return found;
}

function ofDisk({ freeBytes, fullBelowBytes }: DiskSpace, isFull: boolean): Found[] {
  const free = `${(freeBytes / 2 ** 30).toFixed(1)} GiB of its disk are free`;
  if (isFull || freeBytes < fullBelowBytes) {
    return [{ kind: 'disk', severity: CRITICAL, message: `${free}: new tasks are refused` }];
  }
  if (freeBytes >= NEARLY * fullBelowBytes) return [];
  const full = (fullBelowBytes / 2 ** 30).toFixed(1);
  return [{ kind: 'disk-nearly', severity: WARNING, message: `${free}: below ${full} GiB new tasks are refused` }];
}
