import { hashOf, placeOf } from '../show/place.ts';
import { createStore } from './store.ts';

export const placeStore = createStore(placeOf(location.hash));

window.addEventListener('hashchange', () => placeStore.set(placeOf(location.hash)));

export const go = (hash: string): void => {
  location.hash = hash;
};

/** Changes the query of this place, without an entry in the history of the browser. */
export function setQuery(changes: Readonly<Record<string, string>>): void {
  const { page, names, query } = placeStore.value;
  history.replaceState(null, '', hashOf(page, names, { ...Object.fromEntries(query), ...changes }));
  placeStore.set(placeOf(location.hash));
}
