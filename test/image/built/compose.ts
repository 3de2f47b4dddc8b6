import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Ended, runProcess } from '../../support/processes/child-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compose, composeFile } from '../compose-file.ts';
import { IMAGE } from './build.ts';
import type { Podman } from './podman.ts';

const LIBRARIES = ['/usr/lib/podman', '/usr/libexec/podman'];

/** Why the compose file cannot run here; undefined if it can. Names of services need a DNS server beside podman. */
export function whyNoCompose(): string | undefined {
  if (spawnSync('podman-compose', ['--version']).status !== 0) return 'there is no podman-compose';
  const missing = ['netavark', 'aardvark-dns'].find((name) => !LIBRARIES.some((path) => existsSync(join(path, name))));
  return missing === undefined ? undefined : `there is no ${missing}`;
}

interface Listed {
  readonly Id: string;
  readonly ExitCode: number;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Ports: readonly { readonly host_port: number; readonly container_port: number }[] | null;
}

/** The cluster of `deploy/compose.yaml` with the built image, on free ports of the machine. */
export class ComposeCluster implements AsyncDisposable {
  readonly #podman: Podman;
  readonly #opened: AsyncDisposableStack;
  readonly #file: string;

  static async start(podman: Podman): Promise<ComposeCluster> {
    await using opened = new AsyncDisposableStack();
    const directory = opened.use(await temporaryDirectory());
    const file = join(directory.path, 'compose.yaml');
    const text = await readFile(composeFile, 'utf8');
    const free = text.replaceAll(/(127\.0\.0\.1):\d+:(\d+)/g, '$1::$2');
    await writeFile(file, free.replace(/^( {2}image:) .*$/m, `$1 ${IMAGE}`));
    const cluster = new ComposeCluster(podman, file, opened.move());
    try {
      await cluster.up();
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(podman: Podman, file: string, opened: AsyncDisposableStack) {
    this.#podman = podman;
    this.#file = file;
    this.#opened = opened;
  }

  /** Makes and starts all containers. The volumes stay as they are. */
  async up(): Promise<void> {
    await this.#compose('up', '--detach', '--no-build');
  }

  /** Stops all containers. Resolves with the exit code of each. */
  async stop(): Promise<Readonly<Record<string, number>>> {
    // Old versions of podman-compose do not read the grace period.
    const graces = Object.values(compose.services).map(({ stop_grace_period }) =>
      Number.parseInt(stop_grace_period, 10),
    );
    await this.#compose('stop', '--timeout', String(Math.max(...graces)));
    const listed = await this.#list();
    return Object.fromEntries([...listed].map(([service, { ExitCode }]) => [service, ExitCode]));
  }

  /** The last lines of all logs. */
  async logs(): Promise<string> {
    const services = [...(await this.#list())];
    const read = services.map(async ([service, { Id }]) => {
      const { stdout, stderr } = await runProcess('podman', ['logs', '--tail=20', Id], { env: this.#podman.env });
      return `${service}:\n${stdout}${stderr}`;
    });
    return (await Promise.all(read)).join('\n');
  }

  /** Deletes all containers. */
  async down(): Promise<void> {
    await this.#compose('down');
  }

  /** The port of the machine that leads to a port of a service. */
  async portOf(service: string, port: number): Promise<number> {
    const found = (await this.#container(service)).Ports?.find(({ container_port }) => container_port === port);
    if (found === undefined) throw new Error(`${service} does not publish ${port}`);
    return found.host_port;
  }

  /** Runs the health check of a service as the file says. It succeeds with 0. */
  async checkHealth(service: string): Promise<Ended> {
    const [kind, ...command] = compose.services[service]?.healthcheck?.test ?? [];
    if (kind !== 'CMD') throw new Error(`${service} has no health check of the form CMD`);
    const { Id } = await this.#container(service);
    return runProcess('podman', ['exec', Id, ...command], { env: this.#podman.env });
  }

  async #container(service: string): Promise<Listed> {
    const found = (await this.#list()).get(service);
    if (found === undefined) throw new Error(`${service} has no container`);
    return found;
  }

  async #list(): Promise<Map<string, Listed>> {
    const listed = JSON.parse(
      await this.#podman.podman('ps', '--all', this.#own, '--format=json'),
    ) as readonly Listed[];
    return new Map(listed.map((one) => [one.Labels['com.docker.compose.service'] ?? '', one]));
  }

  get #project(): string {
    return `${this.#podman.prefix}-compose`;
  }

  /** Selects its containers and networks. */
  get #own(): string {
    return `--filter=label=com.docker.compose.project=${this.#project}`;
  }

  async #compose(...args: readonly string[]): Promise<void> {
    await this.#podman.run('podman-compose', ['-p', this.#project, '-f', this.#file, ...args]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#compose('down', '--volumes');
    // Not all versions of podman-compose do it.
    const networks = await this.#podman.podman('network', 'ls', '--quiet', this.#own);
    for (const name of networks.split('\n').filter(Boolean)) await this.#podman.podman('network', 'rm', name);
    await this.#opened[Symbol.asyncDispose]();
  }
}
