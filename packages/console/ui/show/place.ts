/** Where the user is: the part behind `#`. Tokens are never in it. */
export interface Place {
  /** The page: `queues`, `queue`, ... */
  readonly page: string;
  /** What it is about: names of queues, PIDs. */
  readonly names: readonly string[];
  readonly query: URLSearchParams;
}

/** Reads a place. What cannot be read leads to the overview. */
export function placeOf(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#?\/?/, '').split('?', 2);
  const [page = '', ...names] = path.split('/');
  try {
    return { page: page || 'overview', names: names.map(decodeURIComponent), query: new URLSearchParams(query) };
  } catch {
    // A percent sign that is no escape: the address was typed by hand.
    return { page: 'overview', names: [], query: new URLSearchParams() };
  }
}

export function hashOf(
  page: string,
  names: readonly string[] = [],
  query: Readonly<Record<string, string>> = {},
): string {
  const given = Object.entries(query).filter(([, value]) => value !== '');
  const path = ['#', page, ...names.map(encodeURIComponent)].join('/');
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** What each page gets. */
export interface PageProps {
  readonly place: Place;
}
