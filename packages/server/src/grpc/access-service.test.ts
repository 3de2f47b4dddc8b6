import { CredentialKind, hashOfToken, type RightQuestion, WhoAmIRequest, WhoAmIResponse } from '@taskmaster/proto';
import { describe, expect, test } from 'vitest';
import { Access } from '../access/access.ts';
import { AccessTable } from '../access/access-table.ts';
import { unlimitedAccess } from '../access/caller-access.ts';
import { createAccessService } from './access-service.ts';

const grants = [{ groups: ['shop-*'], allow: ['enqueue', 'read'] as const }];
const access = new Access({
  table: new AccessTable({
    principals: [
      { name: 'shop', tokens: [hashOfToken('tm_shop')], rights: grants, limits: { waiters: 7 } },
      { name: 'operator', tokens: [hashOfToken('tm_operator')], rights: [{ allow: ['manage-cluster'] }] },
    ],
  }),
});

interface Asked {
  readonly token?: string;
  readonly principal?: string;
  readonly questions?: RightQuestion[];
  readonly rules?: Access | undefined;
}

async function ask({ token = 'tm_shop', principal = '', questions = [], ...asked }: Asked): Promise<WhoAmIResponse> {
  const rules = 'rules' in asked ? asked.rules : access;
  const caller = {
    address: '10.0.0.1:5',
    routed: false,
    forwarded: false,
    gone: false,
    signal: undefined,
    deadline: Number.POSITIVE_INFINITY,
    access: rules === undefined ? unlimitedAccess : await rules.identify({ kind: 'bearer', token }),
  };
  const request = Buffer.from(WhoAmIRequest.encode({ principal, questions }).finish());
  const answer = await createAccessService(rules).unary.WhoAmI?.(request, caller);
  return WhoAmIResponse.decode(answer ?? Buffer.alloc(0));
}

const question = (right: string, group = ''): RightQuestion => ({ right, group });

describe('WhoAmI', () => {
  test('tells the principal, its rights and its quotas', async () => {
    const questions = [question('enqueue', 'shop-eu'), question('lease', 'shop-eu'), question('manage-cluster')];
    expect(await ask({ questions })).toEqual({
      principal: 'shop',
      credential: CredentialKind.CREDENTIAL_KIND_TOKEN,
      address: '10.0.0.1:5',
      expiresAtMs: 0,
      hasRules: true,
      cluster: '',
      allowed: [true, false, false],
      grants: [{ groups: ['shop-*'], rights: ['enqueue', 'read'] }],
      quotas: [{ quota: 'waiters', limit: 7, used: 0 }],
    });
  });

  test('lets those who manage the cluster ask about others', async () => {
    const asked = { principal: 'shop', questions: [question('enqueue', 'shop-eu'), question('manage-cluster')] };
    expect(await ask({ token: 'tm_operator', ...asked })).toMatchObject({ principal: 'shop', allowed: [true, false] });
    await expect(ask({ principal: 'operator' })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    await expect(ask({ token: 'tm_operator', principal: 'x' })).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' });
  });

  test.each([
    ['an unknown right', { questions: [question('write')] }, 'INVALID_ARGUMENT'],
    ['too many questions', { questions: Array.from({ length: 101 }, () => question('read')) }, 'TOO_MANY_ITEMS'],
    ['a wrong token', { token: 'tm_wrong' }, 'UNAUTHENTICATED'],
  ])('refuses %s', async (_case, asked, reason) => {
    await expect(ask(asked)).rejects.toMatchObject({ reason });
  });

  test('without rules everything is allowed', async () => {
    const questions = [question('manage-cluster'), question('read', 'x')];
    expect(await ask({ rules: undefined, questions })).toMatchObject({ hasRules: false, allowed: [true, true] });
  });
});
