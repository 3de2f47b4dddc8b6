import { Memo } from '@taskmaster/proto';

/** Rules that are remembered: about 1 MB. All are forgotten when there are more. */
const MOST_RULES = 4_096;
/** Gaps of one rule: the one before its latest run, the one after it, and some of schedules that are behind. */
const GAPS = 4;

/** There is no run after `after` and before `next`. `next` undefined: there is none at all. */
interface Gap {
  after: number;
  readonly next: number | undefined;
}

/** Remembers between which instants rules have no runs, because the search of a cron expression takes long. */
export class KnownGaps {
  readonly #rules = new Memo<string, Gap[]>(MOST_RULES);

  /** The first run after an instant. `search` finds it if it is not known. */
  next(rule: string, after: number, search: () => number | undefined): number | undefined {
    const gaps = this.#rules.get(rule) ?? [];
    const known = gaps.find((gap) => gap.after <= after && (gap.next === undefined || after < gap.next));
    if (known !== undefined) return known.next;
    const next = search();
    const same = gaps.find((gap) => gap.next === next);
    if (same !== undefined) {
      same.after = after;
      return next;
    }
    if (gaps.length === 0) this.#rules.remember(rule, gaps);
    if (gaps.length === GAPS) gaps.shift();
    gaps.push({ after, next });
    return next;
  }
}
