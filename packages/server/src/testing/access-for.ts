import { groupRights, hashOfToken } from '@taskmaster/proto';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';

/** Rules with one principal, which may do everything in all groups. Its token is `tm_` and its name. */
export function accessFor(name: string): Access {
  const rights = [{ groups: ['*'], allow: groupRights }];
  return new Access({
    table: new AccessTable({ principals: [{ name, tokens: [hashOfToken(`tm_${name}`)], rights }] }),
  });
}
