import { keptLog } from '@taskmaster/engine/testing';
import {
  type GroupMethodKey,
  groupMethodKeys,
  groupRights,
  groupScope,
  hashOfToken,
  type MethodHandlers,
} from '@taskmaster/proto';
import { Access, AccessTable } from '@taskmaster/server/access';
import type { Caller } from '@taskmaster/server/calls';
import { expect, test } from 'vitest';
import { openWatchedEngine } from '../testing/watched-engine.ts';
import { createHandlers } from './handlers.ts';

test.each(groupMethodKeys)(
  '%s takes the right of its row, before the rest of the request is looked at',
  async (key) => {
    const { field, right } = groupScope(key);
    const allow = groupRights.filter((other) => other !== right);
    const principals = [
      {
        name: 'p',
        tokens: [hashOfToken('tm_p')],
        rights: [
          { groups: ['shop'], allow },
          { groups: ['other'], allow: [right] },
        ],
      },
    ];
    const access = await new Access({ table: new AccessTable({ principals }) }).identify({
      kind: 'bearer',
      token: 'tm_p',
    });
    const caller: Caller = { address: '', access, gone: false, signal: undefined };
    const engine = await openWatchedEngine();
    const handlers: MethodHandlers<GroupMethodKey, [Caller]> = createHandlers(engine, keptLog());
    const handle = handlers[key] as (request: object, caller: Caller) => Promise<unknown>;
    await expect(handle({ [field]: 'shop#a' }, caller)).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    expect(engine.asked).toEqual([]);
  },
);
