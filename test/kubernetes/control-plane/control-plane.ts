import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { eventually } from '../../support/eventually.ts';
import { type Running, runProcess, startProcess } from '../../support/processes/child-process.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';
import { type Credentials, kubeconfig, newCredentials } from './credentials.ts';
import { buildPrograms, type ProgramName, pathOf } from './programs.ts';

/** Services get their addresses from here. The API server gets the first one. */
const SERVICE_RANGE = '10.96.0.0/24';
export const API_SERVICE = { address: '10.96.0.1', port: 443 } as const;
/** The test's kubelet sends no heartbeats, and no machine can be lost: the nodes are healthy. */
const CONTROLLERS = '*,-node-lifecycle-controller,-taint-eviction-controller';
const START_MS = 120_000;

/** A Kubernetes control plane of processes on loopback: etcd, API server and controller manager. */
export class ControlPlane implements AsyncDisposable {
  readonly #opened: AsyncDisposableStack;
  readonly #directory: TemporaryDirectory;
  readonly #credentials: Credentials;
  readonly #etcdUrl: string;
  readonly #programs = new Map<ProgramName, Running>();
  /** Port of the API server on loopback. It stays the same when the server restarts. */
  readonly apiPort: number;

  /** Builds what is missing, and resolves when the API server answers and the default service account exists. */
  static async start(): Promise<ControlPlane> {
    await buildPrograms();
    await using opened = new AsyncDisposableStack();
    const directory = opened.use(await temporaryDirectory());
    const credentials = await newCredentials(directory.path);
    const [etcdPort = 0, peerPort = 0, apiPort = 0] = await freePorts(3);
    const plane = new ControlPlane(opened.move(), directory, credentials, `http://127.0.0.1:${etcdPort}`, apiPort);
    try {
      await plane.#startEtcd(`http://127.0.0.1:${peerPort}`);
      await plane.startApiServer();
      await plane.#startControllerManager();
      await eventually(() => plane.kubectl('get', 'serviceaccount', 'default'), { withinMs: START_MS });
      return plane;
    } catch (error) {
      await plane[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(
    opened: AsyncDisposableStack,
    directory: TemporaryDirectory,
    credentials: Credentials,
    etcdUrl: string,
    apiPort: number,
  ) {
    this.#opened = opened;
    this.#directory = directory;
    this.#credentials = credentials;
    this.#etcdUrl = etcdUrl;
    this.apiPort = apiPort;
  }

  get kubeconfigFile(): string {
    return join(this.#directory.path, 'kubeconfig.json');
  }

  /** The API server's certificate, which includes the one that signed it. */
  get certificateFile(): string {
    return join(this.#directory.path, 'certificates', 'apiserver.crt');
  }

  /** For clients in this process. */
  async config(): Promise<KubeConfig> {
    const config = new KubeConfig();
    config.loadFromString(await readFile(this.kubeconfigFile, 'utf8'));
    return config;
  }

  /** Runs kubectl as administrator. Resolves with its output, or rejects with its error output. */
  kubectl(...args: readonly string[]): Promise<string> {
    return this.#command('kubectl', args);
  }

  /** Runs helm as administrator. Resolves with its output, or rejects with its error output. */
  helm(...args: readonly string[]): Promise<string> {
    return this.#command('helm', args);
  }

  /** Resolves when the API server is ready. */
  async startApiServer(): Promise<void> {
    const { tokenFile, serviceAccountKeyFile } = this.#credentials;
    const running = await this.#start('kube-apiserver', [
      `--etcd-servers=${this.#etcdUrl}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${this.apiPort}`,
      `--cert-dir=${join(this.#directory.path, 'certificates')}`,
      `--service-account-key-file=${serviceAccountKeyFile}`,
      `--service-account-signing-key-file=${serviceAccountKeyFile}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-cluster-ip-range=${SERVICE_RANGE}`,
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
      // Its own address would be that of this machine.
      '--endpoint-reconciler-type=none',
    ]);
    const { token } = this.#credentials;
    const server = `https://127.0.0.1:${this.apiPort}`;
    await writeFile(this.kubeconfigFile, kubeconfig({ server, certificateFile: this.certificateFile, token }));
    await eventually(
      () => {
        if (!running.isRunning) return;
        return this.kubectl('get', '--raw=/readyz');
      },
      { withinMs: START_MS },
    );
    if (!running.isRunning) throw new Error(`the API server ended: ${lastLines(running.stderr)}`);
  }

  /** Resolves when the API server has ended. */
  async stopApiServer(): Promise<void> {
    await this.#programs.get('kube-apiserver')?.kill();
  }

  async #startEtcd(peerUrl: string): Promise<void> {
    const directory = join(this.#directory.path, 'etcd');
    await mkdir(directory, { mode: 0o700 });
    await this.#start('etcd', [
      `--data-dir=${directory}`,
      `--listen-client-urls=${this.#etcdUrl}`,
      `--advertise-client-urls=${this.#etcdUrl}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--initial-cluster=default=${peerUrl}`,
      // The machine does not lose power during the test.
      '--unsafe-no-fsync',
    ]);
  }

  async #startControllerManager(): Promise<void> {
    const { serviceAccountKeyFile } = this.#credentials;
    await this.#start('kube-controller-manager', [
      `--kubeconfig=${this.kubeconfigFile}`,
      `--service-account-private-key-file=${serviceAccountKeyFile}`,
      `--root-ca-file=${this.certificateFile}`,
      '--use-service-account-credentials=true',
      '--leader-elect=false',
      `--controllers=${CONTROLLERS}`,
      // It serves nothing that the tests need.
      '--secure-port=0',
    ]);
  }

  async #start(name: ProgramName, args: readonly string[]): Promise<Running> {
    const running = await startProcess(pathOf(name), args);
    this.#programs.set(name, running);
    this.#opened.use(running);
    return running;
  }

  async #command(name: ProgramName, args: readonly string[]): Promise<string> {
    const home = this.#directory.path;
    // kubectl and helm keep caches in the home directory.
    const env = { PATH: process.env.PATH, HOME: home, KUBECONFIG: this.kubeconfigFile };
    const { code, stdout, stderr } = await runProcess(pathOf(name), args, { env });
    if (code !== 0) throw new Error(`${name} ${args.join(' ')} ended with ${code}: ${stderr.trim()}`);
    return stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync();
  }
}

/** Ports of loopback that were free just now: the programs cannot choose ports themselves. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address !== null && typeof address === 'object') ports.push(address.port);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

const lastLines = (text: string): string => text.trim().split('\n').slice(-5).join('\n');
