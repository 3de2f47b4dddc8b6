#!/usr/bin/env node
import { main } from './cli/main.ts';

// Not left to the event loop: an unfinished read of stdin would keep the process alive.
process.exit(await main(process.argv.slice(2)));
