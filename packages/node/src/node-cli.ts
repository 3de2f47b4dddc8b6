#!/usr/bin/env node
import { createRequire } from 'node:module';
import { run } from './cli/program.ts';
import { colocate } from './colocated.ts';

const { version } = createRequire(import.meta.url)('../package.json') as { readonly version: string };

// A node answers for its whole cluster, so its program is put together here, where the router is.
process.exit(await run(process.argv.slice(2), version, (own, node) => colocate({ own, ...node })));
