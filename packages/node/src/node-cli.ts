#!/usr/bin/env node
import { boundMemory, NODE_BOUNDS } from '@taskmaster/server/memory-bounds';
import { version } from './version.ts';

boundMemory(NODE_BOUNDS);
// Loaded only now, because the program may have been executed again.
const { run } = await import('./cli/program.ts');

process.exit(await run(process.argv.slice(2), version));
