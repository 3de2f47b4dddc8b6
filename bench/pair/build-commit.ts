import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { UsageError } from '../arguments.ts';

/** Clones a commit of the repository at `root` into a new directory and builds it. Returns its abbreviated name. */
export async function buildCommit(root: string, revision: string, directory: string): Promise<string> {
  const commit = await git(root, ['rev-parse', '--verify', '--short', `${revision}^{commit}`]);
  await git(root, ['clone', '--quiet', '--shared', '--no-checkout', root, directory]);
  await git(directory, ['checkout', '--quiet', commit]);
  // The bench of the other commit installs its packages and builds itself before it lists its rows.
  await run(process.execPath, [join(directory, 'scripts', 'with-workspace.mjs'), 'bench', '--list'], directory);
  return commit;
}

/** Returns what git prints. Throws a `UsageError`, because only a wrong revision or place makes these commands fail. */
async function git(cwd: string, args: readonly string[]): Promise<string> {
  try {
    return await run('git', args, cwd);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code === 0) return stdout.trim();
  throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stderr.trim()}`);
}
