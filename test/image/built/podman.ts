import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Ended, type Running, runProcess, startProcess } from '../../support/processes/child-process.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** A container of a failed run ends after this time, in s. */
const LONGEST_LIFE_S = 900;

/** The limits are below those of most machines: a container cannot have more files than its parent. */
const SETTINGS = `[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
events_logger = "none"
`;

export interface ContainerOptions {
  /** Volumes and directories, as `from:to`. */
  readonly volumes?: readonly string[];
  /** Another container whose network it shares. Default: a network of its own, with loopback only. */
  readonly besides?: string | undefined;
}

export interface Container extends AsyncDisposable {
  readonly name: string;
  readonly running: Running;
  /** Runs a command inside. */
  exec(command: readonly string[]): Promise<Ended>;
  /** Sends SIGTERM, as a stop of the container does. Resolves when it has ended. */
  stop(): Promise<Ended>;
}

/** Why containers cannot run here; undefined if they can. */
export function whyNoContainers(): string | undefined {
  const missing = ['podman', 'buildah', 'runc'].find((program) => spawnSync(program, ['--version']).status !== 0);
  return missing === undefined ? undefined : `there is no ${missing}`;
}

/** The container tools, with settings of their own. All of its containers and volumes have one prefix. */
export class Podman implements AsyncDisposable {
  readonly prefix = `taskmaster-test-${process.pid}`;
  readonly env: NodeJS.ProcessEnv;
  readonly #opened: AsyncDisposableStack;
  readonly #volumes: string[] = [];
  #containers = 0;

  static async start(): Promise<Podman> {
    await using opened = new AsyncDisposableStack();
    const directory = opened.use(await temporaryDirectory());
    const settings = join(directory.path, 'containers.conf');
    await writeFile(settings, SETTINGS);
    return new Podman(settings, opened.move());
  }

  private constructor(settings: string, opened: AsyncDisposableStack) {
    this.env = { ...process.env, CONTAINERS_CONF: settings };
    this.#opened = opened;
  }

  /** Runs podman. Resolves with its output; rejects if it fails. */
  async podman(...args: readonly string[]): Promise<string> {
    return this.run('podman', args);
  }

  /** Runs a program that uses podman. Resolves with its output; rejects if it fails. */
  async run(program: string, args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await runProcess(program, args, { env: this.env });
    if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    return stdout.trim();
  }

  async hasImage(name: string): Promise<boolean> {
    return (await runProcess('podman', ['image', 'exists', name], { env: this.env })).code === 0;
  }

  async volume(): Promise<string> {
    const name = `${this.prefix}-volume-${this.#volumes.length}`;
    await this.podman('volume', 'create', name);
    this.#volumes.push(name);
    return name;
  }

  /** Runs a container to its end. */
  async runContainer(image: string, command: readonly string[], options: ContainerOptions = {}): Promise<Ended> {
    await using container = await this.startContainer(image, command, options);
    container.running.process.stdin?.end();
    return await container.running.ended;
  }

  /** Starts a container with the rights that the chart and the compose file give it. No command: that of the image. */
  async startContainer(
    image: string,
    command: readonly string[],
    { volumes = [], besides }: ContainerOptions = {},
  ): Promise<Container> {
    const name = `${this.prefix}-${this.#containers++}`;
    const rights = ['--read-only', '--tmpfs=/tmp', '--cap-drop=all', '--security-opt=no-new-privileges'];
    const network = `--network=${besides === undefined ? 'none' : `container:${besides}`}`;
    const mounts = volumes.map((volume) => `--volume=${volume}`);
    const limits = [`--timeout=${LONGEST_LIFE_S}`, '--pull=never', '--rm'];
    const args = ['run', `--name=${name}`, ...limits, ...rights, network, ...mounts, image, ...command];
    const running = await startProcess('podman', args, { env: this.env });
    return {
      name,
      running,
      exec: (inside) => runProcess('podman', ['exec', name, ...inside], { env: this.env }),
      stop: async () => {
        await this.podman('stop', '--time=60', name);
        return running.ended;
      },
      [Symbol.asyncDispose]: async () => {
        if (running.isRunning) await this.podman('rm', '--force', '--ignore', '--time=0', name);
        await running[Symbol.asyncDispose]();
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of this.#volumes) await this.podman('volume', 'rm', '--force', name);
    await this.#opened[Symbol.asyncDispose]();
  }
}
