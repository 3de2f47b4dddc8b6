// Lints the .proto files, and compares them with the last release (baseline.binpb), with the stubs of the Python client, and the
// generated code with a fresh run.
import { execFileSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clearField, fromBinary, toBinary } from '@bufbuild/protobuf';
import { FieldDescriptorProtoSchema, FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { buf, generate } from './generate.mjs';

const here = dirname(dirname(fileURLToPath(import.meta.url)));
buf('lint');
buf('breaking', '--against', 'baseline.binpb');
checkPython();

const fresh = mkdtempSync(join(tmpdir(), 'taskmaster-proto-'));
try {
  generate(fresh);
  for (const path of ['src/gen', 'descriptor.binpb']) {
    execFileSync('git', ['diff', '--no-index', '--stat', join(here, path), join(fresh, path)], { stdio: 'inherit' });
  }
} catch {
  console.error('generated code is out of date: run `pnpm run proto` and commit the result');
  process.exitCode = 1;
} finally {
  rmSync(fresh, { recursive: true, force: true });
}

/** The Python client has the description of each file in its stub. So this needs no Python. */
function checkPython() {
  const stubs = globSync('../../clients/python/taskmaster/v1/*_pb2.py', { cwd: here });
  const { file: files } = fromBinary(FileDescriptorSetSchema, readFileSync(join(here, 'descriptor.binpb')));
  const stale = stubs.filter((path) => {
    const [, literal = ''] =
      /AddSerializedFile\(b'((?:[^'\\]|\\.)*)'\)/.exec(readFileSync(join(here, path), 'utf8')) ?? [];
    const stub = fromBinary(FileDescriptorProtoSchema, bytesOf(literal));
    const file = files.find(({ name }) => name === stub.name);
    return file === undefined || Buffer.compare(bare(file), toBinary(FileDescriptorProtoSchema, stub)) !== 0;
  });
  if (stubs.length > 0 && stale.length === 0) return;
  console.error(
    `stubs of Python are out of date: run \`python clients/python/generate.py\` and commit the result\n${stale.join('\n')}`,
  );
  process.exitCode = 1;
}

/** The description as protoc gives it to Python: without comments, names in JSON, and what buf adds. */
function bare(file) {
  const { $unknown: _added, sourceCodeInfo: _comments, ...rest } = file;
  const withoutNames = ({ field, extension, nestedType }) => {
    for (const one of [...field, ...extension]) clearField(one, FieldDescriptorProtoSchema.field.jsonName);
    nestedType.forEach(withoutNames);
  };
  rest.messageType.forEach(withoutNames);
  return toBinary(FileDescriptorProtoSchema, rest);
}

/** The bytes of a literal of Python. */
function bytesOf(literal) {
  const escapes = { n: '\n', r: '\r', t: '\t' };
  const text = literal.replace(/\\(x[0-9a-f]{2}|.)/g, (_, code) =>
    code[0] === 'x' && code.length === 3
      ? String.fromCharCode(Number.parseInt(code.slice(1), 16))
      : (escapes[code] ?? code),
  );
  return Buffer.from(text, 'latin1');
}
