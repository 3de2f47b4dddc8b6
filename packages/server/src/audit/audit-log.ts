import type { Clock, Log } from '@taskmaster/engine/ports';
import { ownText, visibleJson } from '@taskmaster/proto';
import type { Audit, AuditEvent } from '../ports/audit.ts';

/** Equal events within this time are counted and recorded together, in ms. */
const TOGETHER_MS = 10_000;
/** Different refusals that are counted at the same time, and as many changes. Further refusals of a principal count as one. */
const MAX_COUNTED = 256;
/** Longer texts of callers are cut. */
const MAX_CHARACTERS = 1_100;

export interface AuditLogDeps {
  readonly clock: Pick<Clock, 'wall' | 'now' | 'at'>;
  readonly log: Log;
  /** Writes a line, or throws. */
  readonly append: (line: string) => void;
}

interface Counted {
  readonly event: AuditEvent;
  more: number;
}

/** Stands for refusals of more different callers than are counted one by one. */
const further = ({ principal }: AuditEvent): AuditEvent => ({
  kind: 'refusal',
  action: 'various',
  target: '',
  result: 'various',
  principal,
});

/** The event without the ends of long texts, and without the requests that they were in. */
function shortened({ target, details = {}, ...event }: AuditEvent): AuditEvent {
  const facts: Record<string, string | number | boolean> = {};
  for (const [name, fact] of Object.entries(details)) facts[name] = typeof fact === 'string' ? cut(fact) : fact;
  return { ...event, target: cut(target), details: facts };
}

const cut = (text: string): string => ownText(text.slice(0, MAX_CHARACTERS));

/** Whether nothing has changed. Such calls cost a caller little, so their lines are bounded. */
const isRefused = ({ kind, result }: AuditEvent): boolean => kind === 'refusal' || result !== 'ok';

/**
 * A caller has another port for each connection. The same changes of different queues and bulk runs are not equal, but refused
 * ones are.
 */
function keyOf(event: AuditEvent): string {
  const { action, target, result, principal, address = '', details } = event;
  const host = address.slice(0, address.lastIndexOf(':'));
  const what = isRefused(event) ? action : `${action} ${target} ${details?.run ?? ''}`;
  return JSON.stringify([what, result, principal ?? '', host]);
}

/** An audit log of lines of JSON. A line that cannot be written goes to the log of the program, which goes on. */
export class AuditLog implements Audit {
  readonly #deps: AuditLogDeps;
  /** Refusals of the last seconds, by what makes them equal. */
  readonly #refusals = new Map<string, Counted>();
  /** Changes of the last seconds. They are apart: a caller that makes many must not hide what it is refused. */
  readonly #changes = new Map<string, Counted>();
  readonly #cancels = new Set<() => void>();
  #isBroken = false;

  constructor(deps: AuditLogDeps) {
    this.#deps = deps;
  }

  record(given: AuditEvent): void {
    const event = shortened(given);
    const recent = isRefused(event) ? this.#refusals : this.#changes;
    const key = keyOf(event);
    const isFull = recent.size >= MAX_COUNTED && !recent.has(key);
    // Changes of members are few, and each counts.
    if (event.kind === 'membership' || (isFull && !isRefused(event))) this.#write(event, 1);
    else if (isFull) this.#count(recent, keyOf(further(event)), further(event));
    else this.#count(recent, key, event);
  }

  #count(recent: Map<string, Counted>, key: string, event: AuditEvent): void {
    const known = recent.get(key);
    if (known !== undefined) {
      known.more++;
      return;
    }
    recent.set(key, { event, more: 0 });
    this.#write(event, 1);
    const { clock } = this.#deps;
    const cancel = clock.at((clock.now() + TOGETHER_MS) as ReturnType<typeof clock.now>, () => {
      this.#cancels.delete(cancel);
      this.#summarize(recent, key);
    });
    this.#cancels.add(cancel);
  }

  /** Records what was counted. */
  close(): void {
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
    for (const recent of [this.#refusals, this.#changes]) {
      for (const key of [...recent.keys()]) this.#summarize(recent, key);
    }
  }

  #summarize(recent: Map<string, Counted>, key: string): void {
    const counted = recent.get(key);
    recent.delete(key);
    if (counted !== undefined && counted.more > 0) this.#write(counted.event, counted.more);
  }

  #write({ kind, action, target, result, principal, address, via, details }: AuditEvent, count: number): void {
    const { append, clock, log } = this.#deps;
    const line = {
      time: new Date(clock.wall()).toISOString(),
      kind,
      action,
      target: target === '' ? undefined : target,
      result,
      principal,
      address,
      via,
      ...details,
      count: count === 1 ? undefined : count,
    };
    try {
      append(visibleJson(JSON.stringify(line)));
      this.#isBroken = false;
    } catch (err) {
      if (!this.#isBroken)
        log.error({ err }, 'the audit log cannot be written: its lines are in this log until it can');
      this.#isBroken = true;
      log.warn({ audit: line }, 'audit');
    }
  }
}
