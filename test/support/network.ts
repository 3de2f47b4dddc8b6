import { spawnSync } from 'node:child_process';

/** A link address that no machine has: frames to it are lost. */
const NOWHERE = '02:00:00:00:00:00';
/** A gateway that does not exist: packets that are routed to it are lost. */
const LOST_GATEWAY = '10.77.0.254';
const LOST_TABLE = '77';

/** Runs `ip`. Throws its error output if it fails. */
function ip(...args: string[]): void {
  const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${error?.message ?? stderr.trim()}`);
}

/** The reason why this machine cannot simulate a network; undefined if it can. */
export function networkProblem(): string | undefined {
  try {
    using probe = new TestNetwork();
    for (const name of ['x', 'y']) probe.addHost(name);
    probe.cut('x', 'y');
    probe.cutTcp('x', 'y');
    return undefined;
  } catch (error) {
    return `needs network namespaces: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/**
 * Simulated machines of one network: network namespaces whose links meet in a bridge. The bridge has its own namespace, so the
 * network of the real machine is not affected. Links can be cut in one direction or both, entirely or for TCP only.
 */
export class TestNetwork implements Disposable {
  readonly #prefix: string;
  readonly #hosts = new Map<string, string>();

  constructor() {
    this.#prefix = `tm${process.pid % 10_000}`;
    ip('netns', 'add', this.#switch);
    this.#inSwitch('link', 'add', 'br0', 'type', 'bridge');
    this.#inSwitch('link', 'set', 'br0', 'up');
  }

  get #switch(): string {
    return `${this.#prefix}-sw`;
  }

  /** Adds a machine and returns its address. */
  addHost(name: string): string {
    const address = `10.77.0.${this.#hosts.size + 1}`;
    const [host, port] = [`${this.#prefix}-${name}`, `p-${name}`];
    ip('netns', 'add', host);
    ip('link', 'add', port, 'netns', this.#switch, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host);
    this.#inSwitch('link', 'set', port, 'master', 'br0');
    this.#inSwitch('link', 'set', port, 'up');
    ip('-n', host, 'link', 'set', 'lo', 'up');
    ip('-n', host, 'addr', 'add', `${address}/24`, 'dev', 'eth0');
    ip('-n', host, 'link', 'set', 'eth0', 'up');
    this.#hosts.set(name, address);
    return address;
  }

  /** The words to put before a command so that it runs on that machine. */
  on(name: string): readonly string[] {
    return ['ip', 'netns', 'exec', `${this.#prefix}-${name}`];
  }

  /** Drops all packets from one machine to the other, silently. The opposite direction still works. */
  cut(from: string, to: string): void {
    this.#neighbour(from, 'replace', this.#addressOf(to), 'lladdr', NOWHERE, 'nud', 'permanent');
  }

  heal(from: string, to: string): void {
    this.#neighbour(from, 'del', this.#addressOf(to));
  }

  /** As `cut`, for TCP only: datagrams arrive. */
  cutTcp(from: string, to: string): void {
    this.#neighbour(from, 'replace', LOST_GATEWAY, 'lladdr', NOWHERE, 'nud', 'permanent');
    this.#on(from, 'route', 'replace', 'default', 'via', LOST_GATEWAY, 'dev', 'eth0', 'table', LOST_TABLE);
    this.#on(from, 'rule', 'add', ...this.#tcpTo(to));
  }

  healTcp(from: string, to: string): void {
    this.#on(from, 'rule', 'del', ...this.#tcpTo(to));
  }

  #tcpTo(to: string): string[] {
    return ['to', this.#addressOf(to), 'ipproto', 'tcp', 'lookup', LOST_TABLE];
  }

  #neighbour(host: string, what: 'replace' | 'del', address: string, ...rest: string[]): void {
    this.#on(host, 'neigh', what, address, 'dev', 'eth0', ...rest);
  }

  #on(host: string, ...args: string[]): void {
    ip('-n', `${this.#prefix}-${host}`, ...args);
  }

  #addressOf(name: string): string {
    const address = this.#hosts.get(name);
    if (address === undefined) throw new Error(`there is no machine ${name}`);
    return address;
  }

  #inSwitch(...args: string[]): void {
    ip('-n', this.#switch, ...args);
  }

  /** End all processes on the machines before. */
  [Symbol.dispose](): void {
    for (const name of this.#hosts.keys()) ip('netns', 'del', `${this.#prefix}-${name}`);
    ip('netns', 'del', this.#switch);
  }
}
