import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { appendFile, chown, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';

const run = promisify(execFile);

/** Where Debian and others have the programs of a server. The newest comes first. */
function findPrograms(): string | undefined {
  const { POSTGRES_BIN: chosen } = process.env;
  if (chosen !== undefined) return chosen;
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).toSorted((a, b) => Number(b) - Number(a)) : [];
  return [...versions.map((version) => join(root, version, 'bin')), '/usr/local/bin', '/usr/bin'].find((dir) =>
    existsSync(join(dir, 'initdb')),
  );
}

/** A server refuses to run as root. */
export function otherUser(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
  const found = lines.map((line) => line.split(':')).find(([name]) => name === 'postgres' || name === 'nobody');
  return found && { uid: Number(found[2]), gid: Number(found[3]) };
}

const bin = findPrograms();

/** With small files of the log: there is less to copy. */
const INITDB = ['-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync', '-N', '--wal-segsize=4'];
/** The files of new servers, for each version of PostgreSQL. */
const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/postgres', import.meta.url));

/** Servers that must end with the test run. */
const alive = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of alive) child.kill('SIGQUIT');
});

/** Why there is no server for tests on this machine; undefined if there is one. */
export const noPostgres: string | undefined =
  bin === undefined ? 'PostgreSQL is not installed (set POSTGRES_BIN to the directory of initdb)' : undefined;

export interface ServerOptions {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[];
  /** First lines of pg_hba.conf. Default: none, so that every role may connect from this machine without a password. */
  readonly access?: readonly string[];
}

/** A server of PostgreSQL in a temporary directory, on a free port of 127.0.0.1, with a superuser `postgres` without password. */
export class PostgresServer implements AsyncDisposable {
  readonly dir: string;
  readonly port: number;
  #process: ChildProcess | undefined;

  private constructor(dir: string, port: number) {
    this.dir = dir;
    this.port = port;
  }

  static start({ settings = [], access = [] }: ServerOptions = {}): Promise<PostgresServer> {
    return PostgresServer.#startOn(async (server, data) => {
      await server.#initialize(data);
      const lines = ['shared_buffers = 32MB', 'max_connections = 60', `unix_socket_directories = ''`, ...settings];
      await appendFile(join(data, 'postgresql.conf'), `${lines.join('\n')}\n`);
      const hba = join(data, 'pg_hba.conf');
      await writeFile(hba, [...access, await readFile(hba, 'utf8')].join('\n'));
    });
  }

  /** Starts a standby of this server, which follows it. Commits wait for it if the server names synchronous standbys. */
  startStandby(): Promise<PostgresServer> {
    const from = `host=127.0.0.1 port=${this.port} user=postgres application_name=standby`;
    return PostgresServer.#startOn((server, data) =>
      server.#run('pg_basebackup', ['-D', data, '-d', from, '-R', '-c', 'fast', '-X', 'stream', '--no-sync']),
    );
  }

  static async #startOn(prepare: (server: PostgresServer, data: string) => Promise<unknown>): Promise<PostgresServer> {
    if (bin === undefined) throw new Error(noPostgres);
    const dir = await mkdtemp(join(tmpdir(), 'taskmaster-postgres-'));
    const server = new PostgresServer(dir, await freePort());
    try {
      await PostgresServer.own(dir);
      await prepare(server, join(dir, 'data'));
      await server.restart();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  #run(program: string, args: readonly string[]): Promise<{ readonly stdout: string }> {
    return run(join(bin ?? '', program), args, { ...otherUser(), cwd: this.dir, env: { ...process.env, LC_ALL: 'C' } });
  }

  /** Copies the files of a new server, which the first server makes: a copy takes a third of the processor time of initdb. */
  async #initialize(data: string): Promise<void> {
    const { stdout: version } = await this.#run('postgres', ['--version']);
    const made = join(CACHE, [version, ...INITDB, otherUser()?.uid].join(' ').replace(/[^\w.]+/g, '-'));
    if (existsSync(made)) {
      await run('cp', ['-Rp', made, data]);
      return;
    }
    await this.#run('initdb', ['-D', data, ...INITDB]);
    await mkdir(CACHE, { recursive: true });
    const copy = await mkdtemp(join(CACHE, 'copy-'));
    await run('cp', ['-Rp', data, join(copy, 'data')]);
    await rename(join(copy, 'data'), made).catch((error: NodeJS.ErrnoException) => {
      // Another process was faster.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
    await rm(copy, { recursive: true });
  }

  /** Gives a file or a directory to the user of servers. */
  static async own(path: string): Promise<void> {
    const user = otherUser();
    if (user !== undefined) await chown(path, user.uid, user.gid);
  }

  url(database = 'postgres', user = 'postgres'): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** Starts the server, on the same port and data. Resolves when it answers. */
  async restart(): Promise<void> {
    const child = spawn(
      join(bin ?? '', 'postgres'),
      ['-D', join(this.dir, 'data'), '-p', String(this.port), '-h', '127.0.0.1'],
      {
        ...otherUser(),
        cwd: this.dir,
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    this.#process = child;
    alive.add(child);
    child.once('exit', () => alive.delete(child));
    let said = '';
    child.stderr?.on('data', (text: Buffer) => {
      said = (said + text.toString()).slice(-4000);
    });
    for (;;) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server ended: ${said}`);
      try {
        await this.query('SELECT 1');
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }

  /** Ends the server in good order, and all connections. */
  async stop(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGINT');
    await once(child, 'exit');
  }

  /** Ends the server as a crash of it would. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    // SIGKILL to the postmaster alone leaves its children for a while; they end by themselves, and the next start waits for them.
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  async query(text: string, database = 'postgres'): Promise<pg.QueryResult> {
    const client = new pg.Client({ connectionString: this.url(database) });
    client.on('error', () => {});
    await client.connect();
    try {
      return await client.query(text);
    } finally {
      await client.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await rm(this.dir, { recursive: true, force: true });
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
