// For tests of several parts together: the command line in this process, and what its backups read.

export { sourceOf } from '../commands/backup.ts';
export { createProgram } from '../main.ts';
export { Runner } from '../session/session.ts';
export { type CliEnded, runCli, startCli } from './cli-shell.ts';
