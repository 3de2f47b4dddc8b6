import type { ClusterMember } from '@taskmaster/client';
import type { Command } from 'commander';
import type { Runner, Session } from '../../session/session.ts';
import { CommandFailedError } from '../../views/cli-errors.ts';
import { type ExitCode, exitCodes } from '../../views/exit-codes.ts';
import { countOf } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';
import { memberColumns, memberObject, membersRow } from '../../views/member-view.ts';
import { tableOf } from '../../views/table.ts';
import { addDrain } from './drain-member.ts';
import { addRemoval } from './remove-member.ts';
import { addResume } from './resume-member.ts';

const columnNotes = `
HELD is the number of partitions that a node holds, WANTED the number that it should hold. While the two differ, partitions
move. A node that is not ALIVE keeps its partitions, and calls for them wait for it. A suspect node did not answer just now.
Proxies hold no partitions and are listed while they run.`;

const examples = `
Examples:
  $ taskmaster members
  $ taskmaster members list --all --json | jq -r 'select(.state == "left") | .name'
  $ taskmaster members drain node-b
  $ taskmaster members remove node-b --accept-loss`;

interface ListFlags {
  readonly all?: true;
}

export function addMembers(program: Command, runner: Runner): void {
  const members = program
    .command('members')
    .summary('list, drain, resume and remove members of the cluster')
    .description(
      'Lists the members of the cluster, drains a member or ends its drain, or removes members that will not come back.',
    )
    .helpCommand(false)
    .addHelpText(
      'after',
      notesOf(`Without a subcommand it lists the members and has the options of list.\n${examples}`),
    );
  members
    .command('list', { isDefault: true })
    .summary('list members and proxies (the default)')
    .description('Lists the members of the cluster, then the running proxies.')
    .argument('[name...]', 'names of members (default: all)')
    .option('-a, --all', 'also members that have left')
    .addHelpText('after', notesOf(`${columnNotes}\n${examples}`))
    .action((names: readonly string[], flags: ListFlags) =>
      runner.connected((session) => listMembers(session, names, flags)),
    );
  addDrain(members, runner);
  addResume(members, runner);
  addRemoval(members, runner);
}

async function listMembers(session: Session, names: readonly string[], { all }: ListFlags): Promise<ExitCode> {
  const { client, out, err, signal } = session;
  const { members } = await client.cluster.members({ signal });
  for (const name of names) {
    if (members.some((member) => member.name === name)) continue;
    const hint = '`taskmaster members --all` lists all members';
    throw new CommandFailedError('UNKNOWN_MEMBER', `no member is named ${name}`, { hint });
  }
  const shown = members.filter((member) =>
    names.length > 0 ? names.includes(member.name) : all === true || !hasLeft(member),
  );
  if (out.json) {
    for (const member of shown) await out.object(memberObject(member));
  } else {
    const nodes = shown.filter((member) => member.role === 'node').filter((node) => !hasLeft(node));
    await out.block(tableOf(shown, memberColumns, out.stream, { footer: membersRow(nodes) }));
  }
  reportMissed(err, shown);
  return exitCodes.ok;
}

/** Says which nodes do not answer, and what an operator can do. */
function reportMissed(err: Session['err'], members: readonly ClusterMember[]): void {
  for (const member of members) {
    if (member.role !== 'node' || hasLeft(member) || member.alive) continue;
    const { name } = member;
    const held = countOf(member.partitionsHeld, 'partition');
    const remove = `\`taskmaster members remove ${name}\` gives up its tasks`;
    err.line(`${name} does not answer; ${held} wait for it. Restart it; if its disk is lost for good, ${remove}`);
  }
}

function hasLeft(member: ClusterMember): boolean {
  return member.role === 'node' && member.state === 'left';
}
