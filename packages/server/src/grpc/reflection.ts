import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { ReflectionService } from '@grpc/reflection';
import { healthDescriptor } from './health/health-descriptor.ts';

type PackageDefinition = ConstructorParameters<typeof ReflectionService>[0];

/** Lets tools such as grpcurl call the node without the .proto files. */
export function createReflection(): ReflectionService {
  const descriptor = readFileSync(createRequire(import.meta.url).resolve('@taskmaster/proto/descriptor'));
  // The service uses only the file descriptors. It gets those of the compiler, because proto-loader creates descriptors with map
  // fields that other languages reject.
  const fileDescriptorProtos = [...filesOf(descriptor), ...filesOf(healthDescriptor)];
  const root: PackageDefinition = {
    files: { format: 'Protocol Buffer 3 DescriptorProto', type: {}, fileDescriptorProtos },
  };
  return new ReflectionService(root);
}

/** The files in a FileDescriptorSet. Each is a tag byte, a varint with the length, and a FileDescriptorProto. */
function filesOf(set: Buffer): Buffer[] {
  const files: Buffer[] = [];
  for (let at = 0; at < set.length; ) {
    let length = 0;
    let shift = 0;
    let byte: number;
    at++;
    do {
      byte = set.readUInt8(at++);
      length |= (byte & 0x7f) << shift;
      shift += 7;
    } while (byte > 0x7f);
    files.push(set.subarray(at, at + length));
    at += length;
  }
  return files;
}
