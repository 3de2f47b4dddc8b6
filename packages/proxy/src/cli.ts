#!/usr/bin/env node
import { createRequire } from 'node:module';
import { boundMemory, type MemoryBounds } from '@taskmaster/server/memory-bounds';

/**
 * A proxy keeps the messages that it passes on in buffers outside of V8's heap, and little in the heap itself. By default V8
 * collects the whole heap when the buffers of a moment exceed half of it: ten times a second. With a smaller young generation it
 * frees most buffers earlier, and with more growth it seldom collects the whole heap.
 */
const PROXY_BOUNDS: MemoryBounds = { youngMib: 4, oldGrowthPercent: 300 };

boundMemory(PROXY_BOUNDS);
// Loaded only now, because the program may have been executed again.
const { run } = await import('./cli/program.ts');

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

process.exit(await run(process.argv.slice(2), version));
