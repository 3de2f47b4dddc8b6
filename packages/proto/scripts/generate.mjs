// Regenerates src/gen and descriptor.binpb from the .proto files, into this package or into the folder given.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(dirname(fileURLToPath(import.meta.url)));

export function buf(...args) {
  const PATH = `${join(here, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`;
  return execFileSync('buf', args, { cwd: here, env: { ...process.env, PATH }, stdio: ['ignore', 'pipe', 'inherit'] });
}

/** Generated serializers copy each message once more and allocate a writer per call: both cost more than the encoding. */
function shareWriter(source) {
  const shared = source.replace(/Buffer\.from\((\w+)\.encode\(value\)\.finish\(\)\)/g, 'encodeToBuffer($1, value)');
  return shared === source
    ? source
    : shared.replace(/^import \{/m, 'import { encodeToBuffer } from "../../../encode-to-buffer.ts";\nimport {');
}

export function generate(out = here) {
  buf('generate', '-o', out);
  buf('build', '-o', join(out, 'descriptor.binpb'));
  const gen = join(out, 'src', 'gen');
  for (const name of readdirSync(gen, { recursive: true })) {
    if (!name.endsWith('.ts')) continue;
    const file = join(gen, name);
    writeFileSync(file, shareWriter(readFileSync(file, 'utf8')));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) generate();
