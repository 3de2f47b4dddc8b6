// Regenerates src/gen and descriptor.binpb from the .proto files, into this package or into the folder given.
import { execFileSync } from 'node:child_process';
import { globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(dirname(fileURLToPath(import.meta.url)));

export function buf(...args) {
  const PATH = `${join(here, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`;
  return execFileSync('buf', args, { cwd: here, env: { ...process.env, PATH }, stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The generated serializers copy each message and allocate a writer for each call. Both cost more than the encoding. */
function shareWriter(source, root) {
  const shared = source.replace(/Buffer\.from\((\w+)\.encode\(value\)\.finish\(\)\)/g, 'encodeToBuffer($1, value)');
  return shared === source
    ? source
    : shared.replace(/^import \{/m, `import { encodeToBuffer } from "${root}/codec/encode-to-buffer.ts";\nimport {`);
}

/** Otherwise 64-bit numbers are read as BigInt and then as strings. */
function numbersOf64Bits(source, root) {
  const numbers = source
    .replace(/longToNumber\(reader\.u?int64\(\)\)/g, 'readInt64(reader)')
    .replace(/\b(writer\.uint32\(\d+\))\.u?int64\(([\w.]+)\);/g, 'writeInt64($1, $2);')
    .replace(/^function longToNumber\([\s\S]*?^}\n\n/m, '');
  return numbers === source
    ? source
    : numbers.replace(/^import \{/m, `import { readInt64, writeInt64 } from "${root}/codec/int64.ts";\nimport {`);
}

/**
 * A generated decoder creates an array for each field of bytes before it reads any. For a task with two such fields this
 * takes a tenth of the decoding time.
 */
function shareNoBytes(source, root) {
  const shared = source.replaceAll('new Uint8Array(0)', 'NO_BYTES');
  return shared === source
    ? source
    : shared.replace(/^import \{/m, `import { NO_BYTES } from "${root}/codec/no-bytes.ts";\nimport {`);
}

/**
 * A generated decoder creates an object for each map before it reads any entry. Messages without entries share one, and
 * messages with entries have one without a prototype: a key of a message may be `__proto__`.
 */
function shareNoEntries(source, root) {
  const shared = source
    .replaceAll(': {}', ': NO_ENTRIES')
    .replace(/(message\.(\w+))\[(entry\d+)\.key\] = \3\.value;/g, '$1 = withEntry($1, $3.key, $3.value);')
    .replace(/^( +)(globalThis\.Object\.entries\((message\.\w+)\)\.forEach)/gm, '$1if ($3 !== NO_ENTRIES) $2');
  return shared === source
    ? source
    : shared.replace(/^import \{/m, `import { NO_ENTRIES, withEntry } from "${root}/codec/no-entries.ts";\nimport {`);
}

/**
 * A generated decoder stops silently at a zero tag or at the end of a group, and does not notice that a field ends behind its
 * message. So a damaged message passes for another one.
 */
function readWhole(source, root) {
  const whole = source
    .replaceAll('const tag = reader.uint32();', 'const tag = readTag(reader);')
    .replace(
      /^( +)if \(\(tag & 7\) === 4 \|\| tag === 0\) \{\n +break;\n +\}\n +reader\.skip\(tag & 7\);/gm,
      '$1skipField(reader, tag);',
    )
    .replace(/^( +)(while \(reader\.pos < end2\) \{\n[^}]+\})\n/gm, '$1$2\n$1checkEnd(reader, end2);\n')
    .replace(/^( +)return message;\n( +\} finally)/gm, '$1checkEnd(reader, end);\n$1return message;\n$2');
  if (/reader\.skip\(/.test(whole)) throw new Error('the generated decoders have another shape: change readWhole');
  return whole === source
    ? source
    : whole.replace(/^import \{/m, `import { checkEnd, readTag, skipField } from "${root}/codec/fields.ts";\nimport {`);
}

/** Lets a bundler leave out the clients of services that stand beside messages: pages of a browser use the messages. */
function markPure(source) {
  return source.replaceAll(' = makeGenericClientConstructor(', ' = /* @__PURE__ */ makeGenericClientConstructor(');
}

export function generate(out = here) {
  buf('generate', '-o', out);
  buf('build', '-o', join(out, 'descriptor.binpb'));
  const gen = join(out, 'src', 'gen');
  for (const name of readdirSync(gen, { recursive: true })) {
    if (!name.endsWith('.ts')) continue;
    const file = join(gen, name);
    const root = relative(dirname(file), dirname(gen));
    const source = readFileSync(file, 'utf8');
    const changes = [shareWriter, numbersOf64Bits, shareNoBytes, shareNoEntries, readWhole, markPure];
    writeFileSync(
      file,
      changes.reduce((changed, change) => change(changed, root), source),
    );
  }
}

/** The messages of the Python client, with the Python that `test/process/python-client.test.ts` has installed. */
function generatePython() {
  const root = join(here, '..', '..');
  const [python] = globSync('node_modules/.cache/taskmaster-test/python-*/bin/python', { cwd: root });
  const script = join(root, 'clients', 'python', 'generate.py');
  if (python !== undefined) execFileSync(join(root, python), [script], { stdio: 'inherit' });
  else console.warn(`no Python with grpcio-tools: if messages have changed, run ${script} where there is one`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  generate();
  generatePython();
}
