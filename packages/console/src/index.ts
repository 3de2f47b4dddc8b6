export { type ConsoleFile, consoleFiles } from './console-files.ts';
