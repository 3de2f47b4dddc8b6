// Lints the .proto files, compares them with the last release (baseline.binpb) and the generated code with a fresh run.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buf, generate } from './generate.mjs';

const here = dirname(dirname(fileURLToPath(import.meta.url)));
buf('lint');
buf('breaking', '--against', 'baseline.binpb');

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
