import {
  AccessServiceService,
  type QuotaUse,
  type RightQuestion,
  type RightsGrant,
  type WhoAmIRequest,
  type WhoAmIResponse,
  CredentialKind as WireCredentialKind,
} from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import type { CallerAccess } from '../access/caller-access.ts';
import type { CredentialKind } from '../access/credential.ts';
import type { Grant, Principal } from '../access/principal.ts';
import { type PrincipalUsage, principalQuotas } from '../access/principal-usage.ts';
import { type GroupRight, groupRights, type Right, rights } from '../access/rights.ts';
import { Refusal } from '../domain/refusal.ts';
import { countAtMost } from '../service/parse/checks.ts';
import type { UnaryCaller } from '../service/raw-service.ts';
import { unaryMethod } from '../service/unary-method.ts';
import type { UnaryService } from './unary-service.ts';

const MOST_QUESTIONS = 100;

const wireKinds: Readonly<Record<CredentialKind, WireCredentialKind>> = {
  none: WireCredentialKind.CREDENTIAL_KIND_UNSPECIFIED,
  token: WireCredentialKind.CREDENTIAL_KIND_TOKEN,
  jwt: WireCredentialKind.CREDENTIAL_KIND_JWT,
  certificate: WireCredentialKind.CREDENTIAL_KIND_CERTIFICATE,
  forwarded: WireCredentialKind.CREDENTIAL_KIND_UNSPECIFIED,
};

/** Tells callers who they are; see access.proto. `access` is undefined if no rules are configured. */
export function createAccessService(access: Access | undefined): UnaryService {
  const whoAmI = async (request: WhoAmIRequest, caller: UnaryCaller): Promise<WhoAmIResponse> => {
    countAtMost(request.questions.length, { field: 'questions' }, MOST_QUESTIONS);
    const { access: own, address } = caller;
    if (access === undefined) return openTo(address, request.questions);
    own.requireIdentity();
    const other = request.principal === '' ? undefined : principalOf(access, own, request.principal);
    const allows = (right: Right, group: string): boolean => has(other ?? own, right, group);
    const name = other?.name ?? own.principal;
    return {
      principal: name,
      credential: wireKinds[own.credential],
      address,
      expiresAtMs: Number.isFinite(own.expiresAt) ? own.expiresAt : 0,
      hasRules: true,
      grants: (other ?? own).grants.map(grantOf),
      allowed: request.questions.map((question) => allows(rightOf(question), question.group)),
      quotas: quotasOf(access.usages.of(name)),
    };
  };
  return { name: 'taskmaster.v1.AccessService', unary: { WhoAmI: unaryMethod(AccessServiceService.whoAmI, whoAmI) } };
}

const openTo = (address: string, questions: readonly RightQuestion[]): WhoAmIResponse => ({
  ...{ principal: '', credential: wireKinds.none, address, expiresAtMs: 0, hasRules: false, grants: [], quotas: [] },
  allowed: questions.map((question) => {
    rightOf(question);
    return true;
  }),
});

function principalOf(access: Access, asking: CallerAccess, name: string): Principal {
  asking.requireCluster('manage-cluster');
  const found = access.table.named(name);
  if (found === undefined) throw invalid('principal', `no principal has the name ${name}`);
  return found;
}

function rightOf({ right }: RightQuestion): Right {
  const found = rights.find((known) => known === right);
  if (found === undefined) throw invalid('questions', `${right} is not a right: ${rights.join(', ')}`);
  return found;
}

const invalid = (field: string, problem: string): Refusal =>
  new Refusal('INVALID_ARGUMENT', problem, { metadata: { field } });

const isOfGroups = (right: Right): right is GroupRight => (groupRights as readonly Right[]).includes(right);

function has(who: CallerAccess | Principal, right: Right, group: string): boolean {
  if ('has' in who) return who.has(right, isOfGroups(right) ? group : undefined);
  return isOfGroups(right) ? who.allows(right, group) : who.allowsCluster(right);
}

const grantOf = ({ groups = [], allow }: Grant): RightsGrant => ({ groups: [...groups], rights: [...allow] });

function quotasOf(usage: PrincipalUsage | undefined): QuotaUse[] {
  if (usage === undefined) return [];
  return principalQuotas.flatMap((quota) => {
    const limit = usage.limits[quota];
    return limit === undefined ? [] : [{ quota, limit, used: usage.used(quota) }];
  });
}
