/** Whether a name matches. */
export type NameMatcher = (name: string) => boolean;

/**
 * Compiles a pattern of names, of groups or of queues within a group. `*` stands for any number of characters; every other
 * character stands for itself. The empty pattern matches the default group. The time of a match grows with the length of the name
 * only.
 */
export function namePattern(pattern: string): NameMatcher {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return (name) => name === first;
  const shortest = first.length + last.length;
  return (name) => {
    if (name.length < shortest || !name.startsWith(first) || !name.endsWith(last)) return false;
    const end = name.length - last.length;
    let at = first.length;
    for (const part of rest) {
      const found = name.indexOf(part, at);
      if (found < 0 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}

/** Whether there is a name that matches both patterns. */
export function patternsMeet(one: string, other: string): boolean {
  if (!one.includes('*')) return namePattern(other)(one);
  if (!other.includes('*')) return namePattern(one)(other);
  const [first, last] = endsOf(one);
  const [otherFirst, otherLast] = endsOf(other);
  // What is between may follow each other.
  return (
    (first.startsWith(otherFirst) || otherFirst.startsWith(first)) &&
    (last.endsWith(otherLast) || otherLast.endsWith(last))
  );
}

const endsOf = (pattern: string): [first: string, last: string] => [
  pattern.slice(0, pattern.indexOf('*')),
  pattern.slice(pattern.lastIndexOf('*') + 1),
];
