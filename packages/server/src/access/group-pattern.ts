/** Whether a group matches. */
export type GroupMatcher = (group: string) => boolean;

/**
 * Compiles a pattern of groups. `*` stands for any number of characters; every other character stands for itself. The empty
 * pattern matches the default group. The time of a match grows with the length of the group only.
 */
export function groupPattern(pattern: string): GroupMatcher {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return (group) => group === first;
  const shortest = first.length + last.length;
  return (group) => {
    if (group.length < shortest || !group.startsWith(first) || !group.endsWith(last)) return false;
    const end = group.length - last.length;
    let at = first.length;
    for (const part of rest) {
      const found = group.indexOf(part, at);
      if (found < 0 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}
