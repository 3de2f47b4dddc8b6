import { runProcess } from '../../../support/processes/child-process.ts';

/** Addresses of pods: 10.244.0.2 to 10.244.255.254. The first one is the gateway's, and stands for all machines. */
const NETWORK = '10.244';
export const GATEWAY = `${NETWORK}.0.1`;
/** All addresses of Services belong to the switch. */
const SERVICES = '10.96.0.0/24';

/** The network of one pod. */
export interface PodLink {
  readonly namespace: string;
  readonly address: string;
}

/** Network namespaces of pods whose links meet in a bridge. The bridge has its own namespace: no route of the machine changes. */
export class PodNetwork implements AsyncDisposable {
  readonly #prefix = `tmk${process.pid}`;
  readonly #links = new Set<PodLink>();
  #last = 1;

  static async open(): Promise<PodNetwork> {
    const network = new PodNetwork();
    await shell(
      `ip netns add "$1"
       ip -n "$1" -batch - <<END
         link set lo up
         link add br0 type bridge
         addr add ${GATEWAY}/16 dev br0
         link set br0 up
         route add local ${SERVICES} dev lo
END`,
      network.#switch,
    );
    return network;
  }

  get #switch(): string {
    return `${this.#prefix}-sw`;
  }

  /** The words to put before a command so that it runs where all links meet. */
  get behind(): readonly string[] {
    return inNamespace(this.#switch);
  }

  /** A new network for a pod, at an address that no pod has had. */
  async add(): Promise<PodLink> {
    const number = ++this.#last;
    const link = {
      namespace: `${this.#prefix}-${number}`,
      address: `${NETWORK}.${Math.floor(number / 254)}.${1 + (number % 254)}`,
    };
    this.#links.add(link);
    await shell(
      `ip netns add "$2"
       ip -n "$1" -batch - <<END
         link add p${number} type veth peer name eth0 netns $2
         link set p${number} master br0
         link set p${number} up
END
       ip -n "$2" -batch - <<END
         link set lo up
         addr add $3/16 dev eth0
         link set eth0 up
         route add default via ${GATEWAY}
END`,
      this.#switch,
      link.namespace,
      link.address,
    );
    return link;
  }

  /** End the processes of the pod before. */
  async remove(link: PodLink): Promise<void> {
    if (this.#links.delete(link)) await shell('ip netns del "$1"', link.namespace);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const link of this.#links) await this.remove(link);
    await shell('ip netns del "$1"', this.#switch);
  }
}

/** The words to put before a command so that it runs in a network namespace. */
export const inNamespace = (namespace: string): readonly string[] => ['ip', 'netns', 'exec', namespace];

/** Why this machine cannot play machines of a network; undefined if it can. */
export async function whyNoPodNetwork(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'only Linux has network namespaces';
  if (process.getuid?.() !== 0) return 'only root can make network namespaces';
  try {
    await using network = await PodNetwork.open();
    await network.add();
    return undefined;
  } catch (error) {
    return `it takes network namespaces: ${error instanceof Error ? error.message : String(error)}`;
  }
}

async function shell(script: string, ...args: readonly string[]): Promise<void> {
  const { code, stderr } = await runProcess('sh', ['-euc', script, 'sh', ...args]);
  if (code !== 0) throw new Error(stderr.trim());
}
