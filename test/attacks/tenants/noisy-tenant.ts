import { randomUUID } from 'node:crypto';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { BatchUpdateTasksRequest, encodeToBuffer, UpdateTasksRequest } from '@taskmaster/proto';
import { anEnqueue, anUpdate, errorInfoOf } from '@taskmaster/server/testing';

/*
 * A tenant that asks for as much as it can and never waits after a refusal: `noisy-tenant.ts ENDPOINT TOKEN`.
 * Prints a JSON line with the outcomes so far every 200 ms.
 */

const [endpoint = '', token = ''] = process.argv.slice(2);
const CONNECTIONS = 5;
const IN_FLIGHT = 16;
const PATH = '/taskmaster.v1.TaskMasterService/';
const BATCH = 50;
const metadata = new Metadata();
metadata.set('authorization', `Bearer ${token}`);
const outcomes: Record<string, number> = {};
const asIs = (bytes: Buffer): Buffer => bytes;

const single = (): Buffer =>
  encodeToBuffer(UpdateTasksRequest, anUpdate({ enqueue: [anEnqueue({ queue: 'noisy#work', pid: pid() })] }));
const batch = (): Buffer => {
  const requests = Array.from({ length: BATCH }, () =>
    anUpdate({ enqueue: [anEnqueue({ queue: 'noisy#work', pid: pid(), data: Buffer.alloc(1024) })] }),
  );
  return encodeToBuffer(BatchUpdateTasksRequest, { requests });
};
const pid = (): Buffer => Buffer.from(randomUUID());

function ask(client: Client, turn: number): void {
  const [method, request] = turn % 4 === 0 ? ['BatchUpdateTasks', batch()] : ['UpdateTasks', single()];
  client.makeUnaryRequest(PATH + method, asIs, asIs, request, metadata, (error: ServiceError | null) => {
    const outcome = error === null ? 'served' : quotaIn(error);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    ask(client, turn + 1);
  });
}

const quotaIn = (error: ServiceError): string => {
  const { reason, metadata: details } = errorInfoOf(error);
  return details.quota ?? reason;
};

for (let connection = 0; connection < CONNECTIONS; connection++) {
  const client = new Client(endpoint, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  for (let call = 0; call < IN_FLIGHT; call++) ask(client, call);
}
setInterval(() => console.log(JSON.stringify(outcomes)), 200);
