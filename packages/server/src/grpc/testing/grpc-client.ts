import { type ChannelOptions, credentials, type ServiceError } from '@grpc/grpc-js';
import { ErrorInfo, Status, TaskMasterServiceClient } from '@taskmaster/proto';
import { type Operations, operationsOver } from './bad-request.ts';

/** The generated client with promises. A call rejects with the error of grpc-js. */
export interface GrpcClient extends Operations, Disposable {
  readonly raw: TaskMasterServiceClient;
}

export function grpcClient(port: number, options: ChannelOptions = {}): GrpcClient {
  const raw = new TaskMasterServiceClient(`127.0.0.1:${port}`, credentials.createInsecure(), options);
  const operations = operationsOver(
    ({ path, requestSerialize, responseDeserialize }, request) =>
      new Promise((resolve, reject) => {
        raw.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, reply) => {
          if (error === null && reply !== undefined) resolve(reply);
          else reject(error);
        });
      }),
  );
  return { ...operations, raw, [Symbol.dispose]: () => raw.close() };
}

/** The details of a failed call, by type. */
function detailsOf(error: ServiceError): Map<string, Uint8Array> {
  const [encoded] = error.metadata.get('grpc-status-details-bin');
  const { details } = Status.decode(Buffer.from(encoded ?? ''));
  return new Map(details.map(({ typeUrl, value }) => [typeUrl.replace('type.googleapis.com/', ''), value]));
}

export function errorInfoOf(error: ServiceError): ErrorInfo {
  return ErrorInfo.decode(detailsOf(error).get('google.rpc.ErrorInfo') ?? Buffer.alloc(0));
}
