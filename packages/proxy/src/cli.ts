#!/usr/bin/env node
import { createRequire } from 'node:module';
import { availableMemory, boundMemory, divideMemory, earlySettings } from '@taskmaster/server/memory';
import { chosenOf, memorySettings, proxyBoundsOf, proxyMemorySpec } from './memory.ts';

const args = process.argv.slice(2);
const chosen = chosenOf(await earlySettings(memorySettings, { args, env: process.env }));
const memory = divideMemory(proxyMemorySpec, chosen, availableMemory());
// A division that is refused is reported with all other problems of the settings.
if (memory.kind === 'divided') boundMemory(proxyBoundsOf(memory));
// Loaded only now, because the program may have been executed again.
const { run } = await import('./cli/program.ts');

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

process.exit(await run(args, version));
