#!/usr/bin/env node
import { availableMemory, boundMemory, divideMemory, earlySettings } from '@taskmaster/server/memory';
import { chosenOf, memorySettings, nodeBoundsOf, nodeMemorySpec } from './memory.ts';
import { version } from './version.ts';

const args = process.argv.slice(2);
const chosen = chosenOf(await earlySettings(memorySettings, { args, env: process.env }));
const memory = divideMemory(nodeMemorySpec, chosen, availableMemory());
// A division that is refused is reported with all other problems of the settings.
if (memory.kind === 'divided') boundMemory(nodeBoundsOf(memory));
// The files of a node hold payloads, which only its own user may read.
process.umask(0o077);
// Loaded only now, because the program may have been executed again.
const { run } = await import('./cli/program.ts');

process.exit(await run(args, version));
