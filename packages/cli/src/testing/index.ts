// For tests of several parts together: the command line in this process, and what its backups read.

export { sourceOf } from '../commands/backup.ts';
export { startCli } from './cli-shell.ts';
