import type { CoreV1Api } from '@kubernetes/client-node';
import { isAnswer, isAnswerWith } from './persist.ts';

export type Contents = Readonly<Record<string, Buffer>>;

/** Reads ConfigMaps and Secrets. While the API server is away it returns what it read before. */
export class ObjectReader {
  readonly #core: CoreV1Api;
  readonly #known = new Map<string, Contents>();

  constructor(core: CoreV1Api) {
    this.#core = core;
  }

  /** Undefined if it does not exist. */
  configMap(namespace: string, name: string): Promise<Contents | undefined> {
    return this.#read(`configMap ${namespace}/${name}`, async () => {
      const { data = {}, binaryData = {} } = await this.#core.readNamespacedConfigMap({ namespace, name });
      return { ...buffers(data, 'utf8'), ...buffers(binaryData, 'base64') };
    });
  }

  /** Undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Contents | undefined> {
    return this.#read(`secret ${namespace}/${name}`, async () => {
      const { data = {} } = await this.#core.readNamespacedSecret({ namespace, name });
      return buffers(data, 'base64');
    });
  }

  async #read(key: string, read: () => Promise<Contents>): Promise<Contents | undefined> {
    try {
      const contents = await read();
      this.#known.set(key, contents);
      return contents;
    } catch (error) {
      if (isAnswerWith(error, 404)) return undefined;
      const known = this.#known.get(key);
      if (known === undefined || isAnswer(error)) throw error;
      return known;
    }
  }
}

const buffers = (data: Readonly<Record<string, string>>, encoding: BufferEncoding): Contents =>
  Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text, encoding)]));

/** The contents as texts, for variables. */
export const textsOf = (contents: Contents | undefined): Readonly<Record<string, string>> | undefined =>
  contents && Object.fromEntries(Object.entries(contents).map(([key, bytes]) => [key, bytes.toString()]));
