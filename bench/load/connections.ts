import { credentials } from '@grpc/grpc-js';
import { connect, type TaskMasterClient } from '@taskmaster/client';
import { limits, TaskMasterServiceClient } from '@taskmaster/proto';

/** What plain stubs are made with: replies may be as large as the protocol allows, and each stub has its own connection. */
const STUB_OPTIONS = {
  'grpc.max_receive_message_length': limits.requestBytes,
  'grpc.use_local_subchannel_pool': 1,
};

/** Connections of this process, one of each kind for each endpoint and purpose. */
export class Connections implements AsyncDisposable {
  readonly #stubs = new Map<string, TaskMasterServiceClient>();
  readonly #clients = new Map<string, Promise<TaskMasterClient>>();

  stub(endpoint: string, purpose = ''): TaskMasterServiceClient {
    const key = `${endpoint} ${purpose}`;
    let stub = this.#stubs.get(key);
    if (stub === undefined) {
      stub = new TaskMasterServiceClient(endpoint, credentials.createInsecure(), STUB_OPTIONS);
      this.#stubs.set(key, stub);
    }
    return stub;
  }

  client(endpoint: string, purpose = ''): Promise<TaskMasterClient> {
    const key = `${endpoint} ${purpose}`;
    let client = this.#clients.get(key);
    if (client === undefined) {
      // Calls of an overloaded server must show as slow, not as failed.
      client = connect({ endpoints: endpoint, timeout: '60s' });
      this.#clients.set(key, client);
    }
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stub of this.#stubs.values()) stub.close();
    for (const client of this.#clients.values()) await (await client).close();
  }
}
