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
