import { methods, type WhoAmIResponse, CredentialKind as WireCredentialKind } from '@taskmaster/proto';
import type { ClientContext } from '../tasks/context.ts';
import { assertKnown, type OptionNames } from '../values/known-options.ts';
import type { CallOptions } from '../values/options.ts';
import { callNames } from '../values/options.ts';

/** Something that a principal may be allowed to do. */
export type Right = 'enqueue' | 'lease' | 'read' | 'manage-queues' | 'manage-cluster' | 'back-up';

export interface RightQuestion {
  readonly right: Right;
  /** Default: the default group. Ignored for `manage-cluster` and `back-up`. */
  readonly group?: string | undefined;
}

export interface WhoAmIOptions extends CallOptions {
  /** Name of another principal to ask about, which needs the right `manage-cluster`. Default: the caller. */
  readonly principal?: string | undefined;
  /** At most 100. */
  readonly questions?: readonly RightQuestion[] | undefined;
}

/** Who a caller is and what it may do. */
export interface Identity {
  /** Name of the principal. Undefined: no rules of access are configured. */
  readonly principal: string | undefined;
  /** How the caller proves who it is. */
  readonly credential: 'none' | 'token' | 'jwt' | 'certificate';
  /** Address of the caller as the server sees it, `host:port`. Undefined in the same process. */
  readonly address: string | undefined;
  /** Id of the cluster; `alone-…` for a node without one. Undefined: it is unknown, or the engine is in this process. */
  readonly cluster: string | undefined;
  /** When the credential expires. Undefined: never, or unknown. */
  readonly expiresAt: Date | undefined;
  /** Whether rules of access are configured. False: every caller may do everything. */
  readonly hasRules: boolean;
  /** What the principal may do. An entry without groups is about the whole cluster. */
  readonly grants: readonly { readonly groups: readonly string[]; readonly rights: readonly string[] }[];
  /** The answers to the questions, in their order. */
  readonly allowed: readonly boolean[];
  /** Quotas of the principal at the node or proxy that answered. */
  readonly quotas: readonly { readonly quota: string; readonly limit: number; readonly used: number }[];
}

const whoAmINames: OptionNames<WhoAmIOptions> = { ...callNames, principal: true, questions: true };
const questionNames: OptionNames<RightQuestion> = { right: true, group: true };

const credentials: Readonly<Record<number, Identity['credential']>> = {
  [WireCredentialKind.CREDENTIAL_KIND_TOKEN]: 'token',
  [WireCredentialKind.CREDENTIAL_KIND_JWT]: 'jwt',
  [WireCredentialKind.CREDENTIAL_KIND_CERTIFICATE]: 'certificate',
};

/** Asks who the caller is; see `TaskMasterClient.whoAmI`. */
export async function whoAmI({ calls }: ClientContext, options: WhoAmIOptions): Promise<Identity> {
  assertKnown('whoAmI', options, whoAmINames);
  for (const question of options.questions ?? []) assertKnown('a question', question, questionNames);
  const { principal = '', questions = [], ...call } = options;
  if (calls.transport.isInProcess) return inThisProcess(questions.length);
  const request = { principal, questions: questions.map(({ right, group = '' }) => ({ right, group })) };
  return identityFrom(await calls.call(methods.whoAmI, request, call));
}

const inThisProcess = (questions: number): Identity => ({
  principal: undefined,
  credential: 'none',
  address: undefined,
  expiresAt: undefined,
  hasRules: false,
  cluster: undefined,
  grants: [],
  allowed: Array.from({ length: questions }, () => true),
  quotas: [],
});

function identityFrom({ principal, credential, address, expiresAtMs, cluster, ...rest }: WhoAmIResponse): Identity {
  return {
    ...rest,
    cluster: cluster === '' ? undefined : cluster,
    principal: principal === '' ? undefined : principal,
    credential: credentials[credential] ?? 'none',
    address,
    expiresAt: expiresAtMs === 0 ? undefined : new Date(expiresAtMs),
  };
}
