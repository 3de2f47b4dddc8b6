import { Access } from '../access/access.ts';
import { type AccessRules, AccessTable } from '../access/access-table.ts';

/** Access by rules that a test writes down. */
export function accessOf(rules: AccessRules): Access {
  return new Access({ table: new AccessTable(rules) });
}
