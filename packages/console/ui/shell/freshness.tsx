import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { freshnessStore, tryNow } from '../data/poll.ts';
import { meStore, setToken } from '../data/session.ts';
import { useStore } from '../data/store.ts';
import { refusalText } from '../parts/action.tsx';
import { formatDuration, formatTime } from '../show/format.ts';

/** Renders again each second. */
function useSeconds(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return Math.max(now, Date.now() - 1_000);
}

/** Data that is older than this is shown as old, in ms. */
const OLD_MS = 10_000;

/** Whether the page is up to date, in a word. */
export function Live(): VNode {
  const { at, error } = useStore(freshnessStore);
  const now = useSeconds();
  const age = at === undefined ? undefined : now - at;
  const isOld = error !== undefined || (age !== undefined && age > OLD_MS);
  const text = age === undefined ? 'loading' : isOld ? `${formatDuration(Math.max(1_000, age))} old` : 'live';
  return (
    <span class={isOld ? 'live old' : 'live'} title={at === undefined ? '' : `Data of ${formatTime(at, now)}`}>
      {text}
    </span>
  );
}

/** Says that the data is old, why, and when the page tries again. */
export function Banner(): VNode | null {
  const { at, error, failingSince, nextAt } = useStore(freshnessStore);
  const now = useSeconds();
  if (error === undefined) return <div aria-live="assertive" />;
  const isLoginNeeded = error.reason === 'UNAUTHENTICATED';
  const title = isLoginNeeded
    ? 'You are logged out.'
    : error.reason === 'PERMISSION_DENIED'
      ? 'You do not have the right to see this.'
      : 'The data is not up to date.';
  const seconds = nextAt === undefined ? 0 : Math.max(0, Math.ceil((nextAt - now) / 1_000));
  return (
    <div class="banner" role="alert" aria-live="assertive">
      <p>
        <strong>{title}</strong> {refusalText(error)}{' '}
        {at === undefined
          ? 'There is no data yet.'
          : `The page shows data of ${formatTime(at, now)}, ${formatDuration(Math.max(1_000, now - at))} old.`}
        {failingSince === undefined ? '' : ` It has failed since ${formatTime(failingSince, now)}.`}{' '}
        <span aria-hidden="true">{seconds > 0 ? `Next try in ${seconds} s.` : 'Trying now.'}</span>
      </p>
      {isLoginNeeded ? (
        <button type="button" onClick={logIn}>
          Log in again
        </button>
      ) : (
        <button type="button" onClick={tryNow}>
          Try now
        </button>
      )}
    </div>
  );
}

function logIn(): void {
  setToken('');
  meStore.set(undefined);
}
