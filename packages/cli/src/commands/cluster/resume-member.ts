import type { Command } from 'commander';
import type { Runner } from '../../session/session.ts';
import { exitCodes } from '../../views/exit-codes.ts';
import { countOf } from '../../views/format.ts';
import { notesOf } from '../../views/help.ts';

const notes = `
The member stays, keeps the partitions that it still holds, and takes its share again. A member that has handed over its last
partition leaves, and cannot be resumed: it comes back as a new member when it is started with --join.

Examples:
  $ taskmaster members resume node-b
  $ taskmaster partitions --holder node-b`;

export function addResume(members: Command, runner: Runner): void {
  members
    .command('resume')
    .summary('end the drain of a member, so that it stays')
    .description('Ends the drain of a member: it stays, and takes its share of the partitions again.')
    .argument('<name>', 'name of the member')
    .addHelpText('after', notesOf(notes))
    .action((name: string) =>
      runner.connected(async ({ client, out, signal }) => {
        const { partitionsHeld: held } = await client.cluster.resume(name, { signal });
        if (out.json) await out.object({ name, state: 'active', held });
        else
          await out.line(
            `${name}: stays, with ${countOf(held, 'partition')}; \`taskmaster members\` shows what comes back`,
          );
        return exitCodes.ok;
      }),
    );
}
