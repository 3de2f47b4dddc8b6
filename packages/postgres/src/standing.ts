import type { NodeRow, Registration } from './database.ts';

/**
 * What the row of a node says to the process that has this registration and knows that its commits up to `acknowledged` were
 * applied.
 *
 *  - same: the last of them is the last commit.
 *  - ahead: later ones were applied, too, of those up to `sent`. A server may show them before its standbys have them.
 *  - fenced: another process has the name.
 *  - reverted: the database has lost commits that it had acknowledged.
 */
export type Standing = 'same' | 'ahead' | 'fenced' | 'reverted';

/** Decides R2 and R3. A process that is both fenced and reverted reports the loss, because that is what an operator must know. */
export function standingOf(
  row: NodeRow | undefined,
  { fence, instance }: Registration,
  acknowledged: number,
  sent: number,
): Standing {
  if (row === undefined || row.fence < fence) return 'reverted';
  if (row.instance !== instance) return row.began < acknowledged ? 'reverted' : 'fenced';
  if (row.seq < acknowledged) return 'reverted';
  if (row.seq === acknowledged) return 'same';
  // A larger number is of no commit of this process.
  return row.seq <= sent ? 'ahead' : 'fenced';
}
