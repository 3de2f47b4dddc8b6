import type { LeasePattern } from '@taskmaster/engine/domain';
import { Memo } from '@taskmaster/proto';
import type { RE2JS } from 're2js';
import type { Place } from './checks.ts';
import { compileRegex } from './parse-queues.ts';

/** Compiled expressions that are kept. RE2 remembers up to 8 MiB of states for each. */
const MOST_KEPT = 16;
/** Usually less: it remembers at most one state for each character matched, and is compiled anew before they take about this. */
const MOST_STATE_BYTES = 1024 * 1024;
/** Bytes of a state, and for each instruction of the expression. */
const STATE_BYTES = 200;
const INSTRUCTION_BYTES = 16;
/** Expressions that are known to be valid. Workers send theirs with every request. */
const MOST_VALID = 1_024;

interface Kept {
  readonly program: RE2JS;
  charactersLeft: number;
}

/** The one that was compiled first comes first. */
const kept = new Map<string, Kept>();
const valid = new Memo<string, true>(MOST_VALID);

/** False: `keptRegex` has to compile the expression, which takes some milliseconds. */
export const knowsRegex = (regex: string): boolean => regex === '' || valid.get(regex) === true;

/**
 * As `nameRegex`, for requests that may wait: the function keeps the text of the expression only, so that the memory of many
 * waiting requests does not depend on what their expressions remember.
 */
export function keptRegex(regex: string, place: Place): LeasePattern['matches'] {
  if (regex === '') return undefined;
  if (!valid.get(regex)) {
    keep(regex, place);
    valid.remember(regex, true);
  }
  return (fullName) => {
    const known = kept.get(regex);
    const usable = known !== undefined && known.charactersLeft >= fullName.length ? known : keep(regex, place);
    usable.charactersLeft -= fullName.length;
    return usable.program.test(fullName);
  };
}

function keep(regex: string, place: Place): Kept {
  const program = compileRegex(regex, place);
  const stateBytes = STATE_BYTES + INSTRUCTION_BYTES * program.programSize();
  const compiled = { program, charactersLeft: Math.floor(MOST_STATE_BYTES / stateBytes) };
  kept.delete(regex);
  kept.set(regex, compiled);
  if (kept.size > MOST_KEPT) {
    const [oldest] = kept.keys();
    if (oldest !== undefined) kept.delete(oldest);
  }
  return compiled;
}
