import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { credentials } from '@grpc/grpc-js';
import { connect, type Routing, type TaskMasterClient } from '@taskmaster/client';
import { limits, TaskMasterServiceClient } from '@taskmaster/proto';

/** Time limit for a server to accept a connection, in ms. */
const CONNECT_MS = 30_000;

/** Environment variable with the file of the authority that signs the certificates of servers. Empty: plain text. */
export const CA_FILE = 'TASKMASTER_BENCH_CA';

/** Options of plain stubs: replies may be as large as the protocol allows, and each stub has its own connection. */
const STUB_OPTIONS = {
  'grpc.max_receive_message_length': limits.requestBytes,
  'grpc.use_local_subchannel_pool': 1,
};

/** Connections of this process, one of each kind for each endpoint and purpose. */
export class Connections implements AsyncDisposable {
  readonly #caFile = process.env[CA_FILE] ?? '';
  readonly #stubs = new Map<string, Promise<TaskMasterServiceClient>>();
  readonly #clients = new Map<string, Promise<TaskMasterClient>>();

  /** A connected stub, so that the first call does not include the connection. */
  stub(endpoint: string, purpose = ''): Promise<TaskMasterServiceClient> {
    const key = `${endpoint} ${purpose}`;
    let stub = this.#stubs.get(key);
    if (stub === undefined) {
      stub = connectStub(endpoint, this.#caFile);
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

async function connectStub(endpoint: string, caFile: string): Promise<TaskMasterServiceClient> {
  const channel = caFile === '' ? credentials.createInsecure() : credentials.createSsl(readFileSync(caFile));
  const stub = new TaskMasterServiceClient(endpoint, channel, STUB_OPTIONS);
  await promisify(stub.waitForReady.bind(stub))(Date.now() + CONNECT_MS);
  return stub;
}
