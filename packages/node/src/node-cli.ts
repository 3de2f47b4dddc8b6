#!/usr/bin/env node
import { createRequire } from 'node:module';
import { run } from './cli/program.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

process.exit(await run(process.argv.slice(2), version));
