import type { Identity, Right } from '@taskmaster/client';
import { hashOfToken, newToken } from '@taskmaster/proto';
import { Argument, type Command } from 'commander';
import { openInput } from '../input/read-input.ts';
import type { Runner, Session } from '../session/session.ts';
import { CommandFailedError } from '../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../views/exit-codes.ts';
import { notesOf } from '../views/help.ts';
import type { Shell } from '../views/output.ts';
import { tableOf } from '../views/table.ts';

const RIGHTS: readonly Right[] = ['enqueue', 'lease', 'read', 'manage-queues', 'manage-cluster', 'back-up'];
const TOKEN_MOST_CHARACTERS = 8_192;

const examples = `
Examples:
  $ taskmaster whoami
  $ taskmaster access check enqueue shop
  $ taskmaster access check lease shop --principal billing
  $ taskmaster access token`;

const tokenNotes = `
Give the token to the program that shall call, and put the hash among the tokens of its principal in the access file. The token
itself is stored nowhere. With --hash, standard input has a token, and only its hash is printed.

Examples:
  $ taskmaster access token
  $ taskmaster access token --json | jq -r .token > token
  $ taskmaster access token --hash < token`;

/** Adds `whoami` and `access`. */
export function addAccess(program: Command, runner: Runner): void {
  program
    .command('whoami')
    .summary('show who you are to the node, and what you may do')
    .description('Shows your principal, your credential, your rights and your quotas, as the node or proxy sees them.')
    .addHelpText('after', notesOf(examples))
    .action(() => runner.connected(showIdentity));

  const access = program
    .command('access')
    .summary('check rights, and make tokens')
    .description('Checks whether a principal has a right, and makes tokens for access files.')
    .helpCommand(false)
    .addHelpText('after', notesOf(examples));
  access
    .command('check')
    .summary('tell whether you have a right')
    .description('Tells whether you, or another principal, have a right. Exits with 0 for yes and 1 for no.')
    .addArgument(new Argument('<right>', 'the right').choices(RIGHTS))
    .argument('[group]', 'the group (default: the default group)', '')
    .option('--principal <name>', 'ask about this principal; needs the right manage-cluster')
    .addHelpText('after', notesOf(examples))
    .action((right: Right, group: string, { principal }: { readonly principal?: string }) =>
      runner.connected((session) => checkRight(session, right, group, principal)),
    );
  access
    .command('token')
    .summary('make a token for an access file')
    .description('Makes a token and its hash. Needs no node.')
    .option('--hash', 'print the hash of the token in standard input')
    .addHelpText('after', notesOf(tokenNotes))
    .action(({ hash }: { readonly hash?: true }) =>
      runner.local((shell) => (hash ? hashInput(shell) : makeToken(shell))),
    );
}

async function showIdentity({ client, out, signal }: Session): Promise<ExitCode> {
  const identity = await client.whoAmI({ signal });
  if (out.json) {
    await out.object({ ...identity });
    return exitCodes.ok;
  }
  const { principal, credential, address, cluster, expiresAt, hasRules, grants, quotas } = identity;
  const facts: readonly (readonly [string, string])[] = [
    ['principal', hasRules ? (principal ?? '') : '(no rules of access: everybody may do everything)'],
    ['credential', credential],
    ['address', address ?? ''],
    ...(cluster === undefined ? [] : [['cluster', cluster] as const]),
    ...(expiresAt === undefined ? [] : [['expires', expiresAt.toISOString()] as const]),
    ...grants.map((grant) => ['may', textOf(grant)] as const),
    ...(hasRules && grants.length === 0 ? [['may', 'nothing'] as const] : []),
    ...quotas.map(({ quota, limit, used }) => ['quota', `${quota}: ${Math.round(used)} of ${limit}`] as const),
  ];
  const columns = [
    { title: '', cell: ([name]: readonly [string, string]) => name },
    { title: '', cell: ([, value]: readonly [string, string]) => value },
  ];
  await out.block(tableOf(facts, columns, out.stream, { header: false }));
  return exitCodes.ok;
}

function textOf({ groups, rights }: Identity['grants'][number]): string {
  const where = groups.length === 0 ? 'on the cluster' : `on ${groups.map((group) => `"${group}"`).join(', ')}`;
  return `${rights.join(', ')} ${where}`;
}

async function checkRight(
  { client, out, signal }: Session,
  right: Right,
  group: string,
  principal: string | undefined,
): Promise<ExitCode> {
  const identity = await client.whoAmI({ signal, principal, questions: [{ right, group }] });
  const allowed = identity.allowed[0] === true;
  const who = identity.principal ?? 'everybody';
  if (out.json) await out.object({ principal: identity.principal, right, group, allowed });
  else {
    const where =
      right === 'manage-cluster' || right === 'back-up'
        ? 'the cluster'
        : group === ''
          ? 'the default group'
          : `the group ${group}`;
    const answer = allowed ? `yes: ${who} may ${right} on ${where}` : `no: ${who} may not ${right} on ${where}`;
    await out.line(answer);
  }
  return allowed ? exitCodes.ok : exitCodes.failed;
}

async function makeToken({ out, err }: Shell): Promise<ExitCode> {
  const token = newToken();
  const hash = hashOfToken(token);
  if (out.json) await out.object({ token, hash });
  else {
    await out.line(token);
    await out.line(hash);
    err.line('the first line is for the program that calls, the second one for `tokens` in the access file');
  }
  return exitCodes.ok;
}

async function hashInput(shell: Shell): Promise<ExitCode> {
  const { out } = shell;
  const { stream } = await openInput('-', shell);
  let text = '';
  for await (const part of stream) {
    text += String(part);
    if (text.length > TOKEN_MOST_CHARACTERS) break;
  }
  const token = text.trim();
  if (token === '' || token.length > TOKEN_MOST_CHARACTERS || /\s/.test(token)) {
    throw new CommandFailedError('INVALID_ARGUMENT', 'standard input must have one token');
  }
  const hash = hashOfToken(token);
  if (out.json) await out.object({ hash });
  else await out.line(hash);
  return exitCodes.ok;
}
