import { useEffect, useRef, useState } from 'preact/hooks';
import { pauseAfter } from '../show/backoff.ts';
import { CallError, callError, readJson } from './rpc.ts';
import { type Me, meStore } from './session.ts';
import { createStore } from './store.ts';

/** How it stands with the data of the page. */
export interface Freshness {
  /** When the last answer came, by the clock of the browser. Undefined: none came yet. */
  readonly at: number | undefined;
  /** Why the last try failed. Undefined: it did not. */
  readonly error: CallError | undefined;
  /** When the first of the failed tries began. */
  readonly failingSince: number | undefined;
  /** When the next try is, by the clock of the browser. Undefined: now, or when the tab is visible. */
  readonly nextAt: number | undefined;
}

const UNKNOWN: Freshness = { at: undefined, error: undefined, failingSince: undefined, nextAt: undefined };

export const freshnessStore = createStore<Freshness>(UNKNOWN);
/** Counts requests to try now. */
const retryStore = createStore(0);

export const tryNow = (): void => retryStore.set(retryStore.value + 1);

const INTERVAL_MS = 2_000;
/** How often the rights of the user are asked for, in ms. */
const ME_INTERVAL_MS = 15_000;
let meAt = 0;

/** Asks who the user is, at most every 15 s unless `force`. */
export async function refreshMe(signal?: AbortSignal, force = false): Promise<Me | undefined> {
  if (!force && meStore.value !== undefined && Date.now() - meAt < ME_INTERVAL_MS) return meStore.value;
  const me = await readJson<Me>('me', signal);
  meAt = Date.now();
  // Who is logged out while a page is open keeps its data, and a banner says so.
  const isLost = !force && meStore.value?.identified === true && !me.identified;
  // Times and ports differ each time, and no page shows them.
  if (!isLost && facts(meStore.value) !== facts(me)) meStore.set(me);
  return me;
}

const facts = (me: Me | undefined): string | undefined =>
  me &&
  JSON.stringify([
    me.needsToken,
    me.identified,
    me.principal,
    me.everything,
    me.clusterRights,
    me.grants,
    me.server?.name,
  ]);

export interface Poll<T> {
  readonly data: T | undefined;
  readonly error: CallError | undefined;
  /** Asks again now. */
  readonly again: () => void;
}

/**
 * The one poll of a page: calls `load`, again and again, as long as the tab is visible. `key`: what is asked for; another key
 * begins anew and forgets the data. `publish` shows what is there before all of it is. Failures are repeated after growing
 * pauses, and the data stays.
 */
export function usePoll<T>(
  key: string,
  load: (signal: AbortSignal, publish: (part: T) => void) => Promise<T>,
  intervalMs = INTERVAL_MS,
): Poll<T> {
  const [state, setState] = useState<{ readonly key: string; readonly data?: T; readonly error?: CallError }>({ key });
  const latest = useRef(load);
  latest.current = load;
  const kick = useRef<() => void>(() => {});

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running: AbortController | undefined;
    let failures = 0;
    let failingSince: number | undefined;
    let at: number | undefined;
    let ended = false;
    freshnessStore.set(UNKNOWN);

    const schedule = (ms: number): void => {
      clearTimeout(timer);
      timer = setTimeout(run, ms);
    };
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      if (ended || document.hidden) return;
      running?.abort();
      const own = new AbortController();
      running = own;
      const begun = Date.now();
      try {
        const me = await refreshMe(own.signal);
        if (me?.identified === false) {
          meAt = 0;
          throw new CallError('UNAUTHENTICATED', me.refusal?.message ?? 'the credential is not valid');
        }
        const data = await latest.current(own.signal, (part) => {
          if (!own.signal.aborted) setState({ key, data: part });
        });
        if (own.signal.aborted) return;
        failures = 0;
        failingSince = undefined;
        at = Date.now();
        setState({ key, data });
        freshnessStore.set({ at, error: undefined, failingSince: undefined, nextAt: undefined });
        schedule(Math.max(250, intervalMs - (at - begun)));
      } catch (thrown) {
        if (own.signal.aborted) return;
        const error = callError(thrown);
        if (error.reason === 'UNAUTHENTICATED' || error.reason === 'PERMISSION_DENIED') meAt = 0;
        failures++;
        failingSince ??= begun;
        const pause = pauseAfter(failures, Math.random());
        setState((before) => ({ ...(before.key === key ? before : {}), key, error }));
        freshnessStore.set({ at, error, failingSince, nextAt: Date.now() + pause });
        schedule(pause);
      }
    };
    const onVisible = (): void => {
      if (document.hidden) running?.abort();
      else void run();
    };
    kick.current = () => void run();
    document.addEventListener('visibilitychange', onVisible);
    window.addEventListener('online', onVisible);
    const endRetry = retryStore.subscribe(() => void run());
    void run();
    return () => {
      ended = true;
      clearTimeout(timer);
      running?.abort();
      endRetry();
      document.removeEventListener('visibilitychange', onVisible);
      window.removeEventListener('online', onVisible);
    };
  }, [key, intervalMs]);

  const own = state.key === key ? state : undefined;
  return { data: own?.data, error: own?.error, again: () => kick.current() };
}
