import { extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/**
 * The main file of a thread: beside the file with this `import.meta.url`, or beside the bundle that contains it. TypeScript in
 * the sources and JavaScript in the build, like that file.
 */
export function fileBeside(importUrl: string | undefined, name: string): URL {
  // Bundles in CommonJS have a file name, but no URL.
  const url = importUrl ?? pathToFileURL(__filename).href;
  return new URL(`./${name}${extname(fileURLToPath(url))}`, url);
}
