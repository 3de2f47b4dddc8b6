import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProcess } from '../support/processes/child-process.ts';

/** A tool from outside of the repository that a test needs. */
export type Tool =
  | { readonly kind: 'ready'; readonly path: string }
  /** The name of the skipped test shows the reason. */
  | { readonly kind: 'missing'; readonly reason: string };

const here = dirname(fileURLToPath(import.meta.url));
const cache = join(here, '..', '..', 'node_modules', '.cache', 'taskmaster-test');
/** Timeout of an installation, because a registry may not be reachable. */
const INSTALL_MS = 120_000;

const GRPCURL = 'v1.9.3';

/** A Python with gRPC in its own folder, which later runs reuse. */
export async function pythonWithGrpc(): Promise<Tool> {
  const version = await outcomeOf('python3', ['--version']);
  if (!version.ok) return { kind: 'missing', reason: 'there is no python3' };
  const requirements = join(here, 'python', 'requirements.txt');
  const hash = createHash('sha256')
    .update(version.said)
    .update(await readFile(requirements));
  const home = join(cache, `python-${hash.digest('hex').slice(0, 16)}`);
  return install(home, join('bin', 'python'), async (folder) => {
    const venv = await outcomeOf('python3', ['-m', 'venv', folder]);
    if (!venv.ok) return venv;
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries=1', '--timeout=15'];
    return outcomeOf(join(folder, 'bin', 'python'), [...pip, '-r', requirements]);
  });
}

/** grpcurl, built from source. Later runs reuse it. */
export async function grpcurl(): Promise<Tool> {
  const version = await outcomeOf('go', ['version']);
  if (!version.ok) return { kind: 'missing', reason: 'there is no Go' };
  const source = `github.com/fullstorydev/grpcurl/cmd/grpcurl@${GRPCURL}`;
  return install(join(cache, `grpcurl-${GRPCURL}`), 'grpcurl', (folder) =>
    outcomeOf('go', ['install', source], { ...process.env, GOBIN: folder }),
  );
}

interface Outcome {
  readonly ok: boolean;
  readonly said: string;
}

/** Makes the folder once. It gets its name when it is complete, so that concurrent runs never see an incomplete one. */
async function install(home: string, program: string, make: (folder: string) => Promise<Outcome>): Promise<Tool> {
  const path = join(home, program);
  if (existsSync(path)) return { kind: 'ready', path };
  const draft = `${home}.${process.pid}`;
  await mkdir(dirname(home), { recursive: true });
  try {
    const made = await make(draft);
    if (!made.ok) return { kind: 'missing', reason: `cannot be installed: ${made.said.trim().split('\n').at(-1)}` };
    if (!existsSync(path)) await rename(draft, home);
    return { kind: 'ready', path };
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function outcomeOf(command: string, args: readonly string[], env = process.env): Promise<Outcome> {
  const limit = AbortSignal.timeout(INSTALL_MS);
  try {
    const { code, stdout, stderr } = await runProcess(command, args, { env, signal: limit });
    return { ok: code === 0, said: stdout + stderr };
  } catch (error) {
    return { ok: false, said: error instanceof Error ? error.message : String(error) };
  }
}
