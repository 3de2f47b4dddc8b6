import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type CallCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { connect, type Routing, type TaskMasterClient } from '@taskmaster/client';
import { limits, TaskMasterServiceClient } from '@taskmaster/proto';

/** Time limit for a server to accept a connection, in ms. */
const CONNECT_MS = 30_000;

/** How a load proves who it is, and whom it trusts. */
export interface LoadCredentials {
  /** The authority that signs the certificates of servers. Undefined: plain text. */
  readonly caFile?: string | undefined;
  /** Only with TLS. */
  readonly token?: string | undefined;
}

const CA_FILE = 'TASKMASTER_BENCH_CA';

/** The environment of a load generator with these credentials. */
export const environmentOf = ({ caFile = '', token = '' }: LoadCredentials): NodeJS.ProcessEnv => ({
  [CA_FILE]: caFile,
  TASKMASTER_TOKEN: token,
});

/** Options of plain stubs: replies may be as large as the protocol allows, and each stub has its own connection. */
const STUB_OPTIONS = {
  'grpc.max_receive_message_length': limits.requestBytes,
  'grpc.use_local_subchannel_pool': 1,
};

/** Connections of this process, one of each kind for each endpoint and purpose. */
export class Connections implements AsyncDisposable {
  readonly #caFile = process.env[CA_FILE] ?? '';
  readonly #token = process.env.TASKMASTER_TOKEN ?? '';
  readonly #stubs = new Map<string, Promise<TaskMasterServiceClient>>();
  readonly #clients = new Map<string, Promise<TaskMasterClient>>();

  /** A connected stub, so that the first call does not include the connection. */
  stub(endpoint: string, purpose = ''): Promise<TaskMasterServiceClient> {
    const key = `${endpoint} ${purpose}`;
    let stub = this.#stubs.get(key);
    if (stub === undefined) {
      stub = connectStub(endpoint, this.#caFile, this.#token);
      this.#stubs.set(key, stub);
    }
    return stub;
  }

  client(endpoint: string, purpose = '', routing: Routing = 'any'): Promise<TaskMasterClient> {
    const key = `${endpoint} ${purpose} ${routing}`;
    let client = this.#clients.get(key);
    if (client === undefined) {
      // Calls to an overloaded server must be slow, not fail.
      const tls = this.#caFile === '' ? undefined : { caFile: this.#caFile };
      client = connect({ endpoints: endpoint, tls, routing, timeout: '60s', connectTimeout: CONNECT_MS });
      this.#clients.set(key, client);
    }
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stub of this.#stubs.values()) (await stub).close();
    for (const client of this.#clients.values()) await (await client).close();
  }
}

async function connectStub(endpoint: string, caFile: string, token: string): Promise<TaskMasterServiceClient> {
  const secure = () => credentials.createSsl(readFileSync(caFile));
  const channel =
    caFile === ''
      ? credentials.createInsecure()
      : token === ''
        ? secure()
        : credentials.combineChannelCredentials(secure(), bearer(token));
  const stub = new TaskMasterServiceClient(endpoint, channel, STUB_OPTIONS);
  await promisify(stub.waitForReady.bind(stub))(Date.now() + CONNECT_MS);
  return stub;
}

/** Sends the token with each call. */
function bearer(token: string): CallCredentials {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  return credentials.createFromMetadataGenerator((_options, done) => done(null, metadata));
}
