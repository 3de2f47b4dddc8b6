import {
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js';
import {
  type LeasedTask,
  type LeaseTasksRequest,
  type LeaseTasksResponse,
  limits,
  NO_ENTRIES,
  type StreamRequest,
  type StreamResponse,
  type StreamResult,
  TaskMasterServiceService,
  type UpdateTasksRequest,
  type UpdateTasksResponse,
} from '@taskmaster/proto';
import { payload } from '../load/payload.ts';

/*
 * The upper limit of grpc-js: the generated service with complete messages but without any work. It keeps no task; every lease
 * gets as many tasks as it asks for. Prints a ready line like a node.
 */

const PID_BYTES = 16;
let lastToken = 0;

function update({ enqueue, renew, release }: UpdateTasksRequest): UpdateTasksResponse {
  return {
    enqueued: enqueue.map(({ pid }) => ({
      pid: pid.byteLength > 0 ? pid : nextPid(),
      result: 1,
      leased: false,
      published: undefined,
    })),
    renewed: renew.map(({ leaseDurationMs }) => ({ leaseUntilUnixMs: Date.now() + leaseDurationMs })),
    released: release.map(() => ({ hiddenUntilUnixMs: 0, deadLetterQueue: '' })),
    refused: [],
  };
}

function lease({ queues: [queue = ''], maxTasks, leaseDurationMs }: LeaseTasksRequest): LeaseTasksResponse {
  const now = Date.now();
  const task = (): LeasedTask => ({
    queue,
    patternId: 0,
    pid: nextPid(),
    data: payload(),
    leaseToken: lastToken,
    leaseUntilUnixMs: now + leaseDurationMs,
    attempt: 1,
    enqueuedUnixMs: now,
    progress: '',
    headers: NO_ENTRIES,
    maxAttempts: undefined,
    leaseDurationMs: 0,
    key: '',
    timeLimitMs: 0,
  });
  return { tasks: Array.from({ length: maxTasks }, task), moreQueues: [] };
}

function nextPid(): Buffer {
  return Buffer.from((++lastToken).toString(16).padStart(PID_BYTES, '0'), 'latin1');
}

function stream(call: ServerDuplexStream<StreamRequest, StreamResponse>): void {
  call.on('data', ({ calls }: StreamRequest) => {
    const results: StreamResult[] = [];
    for (const { id, call: asked } of calls) {
      if (asked?.$case === 'update') results.push({ id, result: { $case: 'update', value: update(asked.value) } });
      if (asked?.$case === 'lease') results.push({ id, result: { $case: 'lease', value: lease(asked.value) } });
    }
    if (results.length > 0) call.write({ results });
  });
  call.on('end', () => call.end());
}

const server = new Server({ 'grpc.max_receive_message_length': limits.requestBytes });
server.addService(TaskMasterServiceService, {
  updateTasks(
    call: ServerUnaryCall<UpdateTasksRequest, UpdateTasksResponse>,
    reply: sendUnaryData<UpdateTasksResponse>,
  ) {
    reply(null, update(call.request));
  },
  leaseTasks(call: ServerUnaryCall<LeaseTasksRequest, LeaseTasksResponse>, reply: sendUnaryData<LeaseTasksResponse>) {
    reply(null, lease(call.request));
  },
  stream,
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  process.stdout.write(`${JSON.stringify({ ready: true, grpc: `127.0.0.1:${port}` })}\n`);
});
process.once('SIGTERM', () => process.exit(0));
