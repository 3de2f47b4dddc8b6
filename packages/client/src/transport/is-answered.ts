import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { HealthService, type TaskMasterServiceClient } from '@taskmaster/proto';

const NO_BYTES = Buffer.alloc(0);

/** Codes with which gRPC ends a call that got no answer. */
const unanswered: ReadonlySet<number> = new Set([status.DEADLINE_EXCEEDED, status.UNAVAILABLE, status.CANCELLED]);

/** Whether the peer answers a small call in time, in any way: a refusal is an answer, too. */
export function isAnswered(client: TaskMasterServiceClient, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      HealthService.check.path,
      (bytes: Buffer) => bytes,
      (bytes: Buffer) => bytes,
      NO_BYTES,
      new Metadata(),
      { deadline: Date.now() + timeoutMs },
      (failure: ServiceError | null) => resolve(failure === null || !unanswered.has(failure.code)),
    );
  });
}
