/** What a user may do, as the server tells it. */
export interface Rights {
  /** True: there are no rules, so everybody may do everything. */
  readonly everything: boolean;
  readonly clusterRights: readonly string[];
  readonly grants: readonly { readonly groups: readonly string[]; readonly rights: readonly string[] }[];
}

/** Whether the user has a right: on a group, or without one on the cluster. The server decides again at each call. */
export function isAllowed(me: Rights | undefined, right: string, group: string | undefined): boolean {
  if (me === undefined || me.everything) return true;
  if (group === undefined) return me.clusterRights.includes(right);
  return me.grants.some(
    ({ groups, rights }) => rights.includes(right) && groups.some((pattern) => matchesPattern(pattern, group)),
  );
}

/** Whether a name matches a pattern, in which `*` stands for any number of characters. */
function matchesPattern(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return first === name;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  const last = rest.pop() ?? '';
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
