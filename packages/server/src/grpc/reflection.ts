import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { handleBidiStreamingCall, MethodDefinition, Server } from '@grpc/grpc-js';

type Reflection = typeof import('@grpc/reflection');
type PackageDefinition = ConstructorParameters<Reflection['ReflectionService']>[0];

const require = createRequire(import.meta.url);
const VERSIONS = ['v1', 'v1alpha'] as const;
const METHOD = 'ServerReflectionInfo';

/** Whether a path is one of reflection. */
export function isReflection(path: string): boolean {
  return path.startsWith('/grpc.reflection.');
}

interface Method extends MethodDefinition<object, object> {
  readonly serve: handleBidiStreamingCall<object, object>;
}

/**
 * Lets tools such as grpcurl call the node without the .proto files. The library is loaded with the first call, because that
 * takes a tenth of the time in which a node starts.
 */
export function addReflection(server: Server): void {
  let loaded: ReadonlyMap<string, Method> | undefined;
  for (const version of VERSIONS) {
    const service = `grpc.reflection.${version}.ServerReflection`;
    const path = `/${service}/${METHOD}`;
    const method = (): Method => {
      loaded ??= loadMethods();
      const found = loaded.get(path);
      if (found === undefined) throw new TypeError(`the library for reflection has no ${path}`);
      return found;
    };
    const definition: MethodDefinition<object, object> = {
      path,
      requestStream: true,
      responseStream: true,
      requestSerialize: (request) => method().requestSerialize(request),
      requestDeserialize: (bytes) => method().requestDeserialize(bytes),
      responseSerialize: (answer) => method().responseSerialize(answer),
      responseDeserialize: (bytes) => method().responseDeserialize(bytes),
    };
    const serve: handleBidiStreamingCall<object, object> = (call) => method().serve(call);
    server.addService({ [METHOD]: definition }, { [METHOD]: serve });
  }
}

/** The methods of the library, by path. */
function loadMethods(): ReadonlyMap<string, Method> {
  const { ReflectionService } = require('@grpc/reflection') as Reflection;
  // The service uses only the file descriptors. It gets those of the compiler, because proto-loader creates descriptors with map
  // fields that other languages reject.
  const fileDescriptorProtos = filesOf(readFileSync(require.resolve('@taskmaster/proto/descriptor')));
  const root: PackageDefinition = {
    files: { format: 'Protocol Buffer 3 DescriptorProto', type: {}, fileDescriptorProtos },
  };
  const methods = new Map<string, Method>();
  const collector: Pick<Server, 'addService'> = {
    addService(service, implementation) {
      for (const [name, definition] of Object.entries(service)) {
        const serve = implementation[name] as Method['serve'];
        methods.set(definition.path, { ...definition, serve });
      }
    },
  };
  new ReflectionService(root).addToServer(collector as Server);
  return methods;
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
