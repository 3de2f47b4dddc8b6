import {
  groupRights,
  methods,
  type QuotaUse,
  type Right,
  type RightQuestion,
  type RightsGrant,
  rights,
  type WhoAmIRequest,
  type WhoAmIResponse,
  CredentialKind as WireCredentialKind,
} from '@taskmaster/proto';
import type { Access } from '../access/access.ts';
import type { CallerAccess } from '../access/caller-access.ts';
import type { CredentialKind } from '../access/credential.ts';
import type { Grant, Principal } from '../access/principal.ts';
import { type PrincipalUsage, principalQuotas } from '../access/principal-usage.ts';
import type { UnaryCaller } from '../calls/raw-service.ts';
import { unaryMethod } from '../calls/unary-method.ts';
import { countAtMost, refuse } from '../requests/checks.ts';
import type { UnaryService } from './unary-service.ts';

const MOST_QUESTIONS = 100;

const wireKinds: Readonly<Record<CredentialKind, WireCredentialKind>> = {
  none: WireCredentialKind.CREDENTIAL_KIND_UNSPECIFIED,
  token: WireCredentialKind.CREDENTIAL_KIND_TOKEN,
  jwt: WireCredentialKind.CREDENTIAL_KIND_JWT,
  certificate: WireCredentialKind.CREDENTIAL_KIND_CERTIFICATE,
};

/**
 * Tells callers who they are; see access.proto. `access` is undefined if no rules are configured. `cluster`: the cluster of this
 * program, empty while it is unknown.
 */
export function createAccessService(access: Access | undefined, cluster: () => string = () => ''): UnaryService {
  const whoAmI = async (request: WhoAmIRequest, caller: UnaryCaller): Promise<WhoAmIResponse> => {
    countAtMost(request.questions.length, { field: 'questions' }, MOST_QUESTIONS);
    const { access: own, address } = caller;
    if (access === undefined) return { ...openTo(address, request.questions), cluster: cluster() };
    own.requireIdentity();
    const principal = principalOf(access, own, request.principal);
    return {
      principal: principal.name,
      credential: wireKinds[own.credential],
      address,
      expiresAtMs: Number.isFinite(own.expiresAt) ? own.expiresAt : 0,
      hasRules: true,
      grants: principal.grants.map(grantOf),
      allowed: request.questions.map((question) => has(principal, question)),
      quotas: quotasOf(access.usages.of(principal.name)),
      cluster: cluster(),
    };
  };
  return { name: 'taskmaster.v1.AccessService', unary: { WhoAmI: unaryMethod(methods.whoAmI, whoAmI) } };
}

const openTo = (address: string, questions: readonly RightQuestion[]): Omit<WhoAmIResponse, 'cluster'> => ({
  principal: '',
  credential: wireKinds.none,
  address,
  expiresAtMs: 0,
  hasRules: false,
  grants: [],
  quotas: [],
  allowed: questions.map((question) => {
    rightOf(question);
    return true;
  }),
});

/** The principal with this name, or that of the caller if it is empty. */
function principalOf(access: Access, asking: CallerAccess, name: string): Principal {
  if (name !== '') asking.requireCluster('manage-cluster');
  const found = access.table.named(name === '' ? asking.principal : name);
  return found ?? refuse('INVALID_ARGUMENT', { field: 'principal' }, `${name} is not one of the principals`);
}

function rightOf({ right }: RightQuestion): Right {
  const found = rights.find((known) => known === right);
  return found ?? refuse('INVALID_ARGUMENT', { field: 'questions' }, `has ${right}: rights are ${rights.join(', ')}`);
}

function has(principal: Principal, question: RightQuestion): boolean {
  const right = rightOf(question);
  const isOfGroups = (groupRights as readonly Right[]).includes(right);
  return principal.has(right, isOfGroups ? question.group : undefined);
}

const grantOf = ({ groups = [], allow }: Grant): RightsGrant => ({ groups: [...groups], rights: [...allow] });

function quotasOf(usage: PrincipalUsage | undefined): QuotaUse[] {
  if (usage === undefined) return [];
  return principalQuotas.flatMap((quota) => {
    const limit = usage.limits[quota];
    return limit === undefined ? [] : [{ quota, limit, used: usage.used(quota) }];
  });
}
