import { createStore } from './store.ts';

/** Who uses the pages, and what the server says of itself: `GET /api/me`. */
export interface Me {
  /** True: there are rules of access. */
  readonly needsToken: boolean;
  /** Whether the user may do anything. */
  readonly identified: boolean;
  readonly refusal?: { readonly reason: string; readonly message: string };
  readonly principal: string;
  readonly credential: 'none' | 'token' | 'jwt' | 'certificate';
  /** True: there are no rules, so everybody may do everything. */
  readonly everything: boolean;
  readonly clusterRights: readonly string[];
  readonly grants: readonly { readonly groups: readonly string[]; readonly rights: readonly string[] }[];
  /** Only for callers that are identified. */
  readonly server?: { readonly role: 'node' | 'proxy'; readonly name: string; readonly version: string };
}

const TOKEN_KEY = 'taskmaster-token';

/** The token. Empty: none. It lives as long as the tab, and is sent only in a header. */
export const tokenStore = createStore(sessionStorage.getItem(TOKEN_KEY) ?? '');

export function setToken(token: string): void {
  if (token === '') sessionStorage.removeItem(TOKEN_KEY);
  else sessionStorage.setItem(TOKEN_KEY, token);
  tokenStore.set(token);
}

export const meStore = createStore<Me | undefined>(undefined);

/** How far the clock of the server is ahead of that of the browser, in ms. */
let ahead = 0;
/** The header has whole seconds, and an answer takes its time. A smaller difference is none. */
const UNCERTAIN_MS = 3_000;

/** Takes the clock of the server from the `date` header of an answer. */
export function setServerClock(date: string | null): void {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return;
  const difference = at + 500 - Date.now();
  ahead = Math.abs(difference) < UNCERTAIN_MS ? 0 : difference;
}

/** The clock of the server, in ms since 1970. Times of the API are of this clock. */
export const serverNow = (): number => Date.now() + ahead;
