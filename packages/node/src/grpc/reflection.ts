import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { loadFileDescriptorSetFromBuffer, loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { protoPath as healthProto } from 'grpc-health-check';

/** Lets grpcurl and its like call the node without the .proto files. */
export function createReflection(): ReflectionService {
  const descriptor = readFileSync(createRequire(import.meta.url).resolve('@taskmaster/proto/descriptor'));
  return new ReflectionService({
    ...loadFileDescriptorSetFromBuffer(descriptor),
    ...loadSync(healthProto, { includeDirs: [dirname(healthProto)] }),
  });
}
