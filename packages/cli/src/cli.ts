#!/usr/bin/env node
import { assertRuntime } from '@taskmaster/client/internal';
import { main } from './main.ts';

try {
  assertRuntime();
} catch (error) {
  process.stderr.write(`taskmaster: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
// Not left to the event loop: an unfinished read of stdin would keep the process alive.
process.exit(await main(process.argv.slice(2)));
