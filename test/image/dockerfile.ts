import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/paths.ts';

export const dockerfile = join(root, 'deploy', 'Dockerfile');

/** What the last stage of the Dockerfile says about a container. */
export interface ImageConfig {
  readonly base: string;
  /** `uid:gid`. */
  readonly user: string;
  readonly workingDirectory: string;
  /** For example `7402/udp`. */
  readonly ports: readonly string[];
  readonly entryPoint: readonly string[];
  readonly command: readonly string[];
}

export function imageConfig(text = readFileSync(dockerfile, 'utf8')): ImageConfig {
  const lastStage = text.slice(text.lastIndexOf('\nFROM ') + 1);
  const argumentOf = (instruction: string): string => {
    const [, value] = new RegExp(`^${instruction} (.+)$`, 'm').exec(lastStage) ?? [];
    if (value === undefined) throw new Error(`the last stage of the Dockerfile has no ${instruction}`);
    return value;
  };
  return {
    base: argumentOf('FROM'),
    user: argumentOf('USER'),
    workingDirectory: argumentOf('WORKDIR'),
    ports: argumentOf('EXPOSE').split(' '),
    entryPoint: JSON.parse(argumentOf('ENTRYPOINT')) as string[],
    command: JSON.parse(argumentOf('CMD')) as string[],
  };
}

/** The names of the programs of all packages: the image has them on its PATH. */
export const programNames: readonly string[] = ['cli', 'node', 'proxy'].flatMap((name) => {
  const manifest = readFileSync(join(root, 'packages', name, 'package.json'), 'utf8');
  return Object.keys((JSON.parse(manifest) as { bin: object }).bin);
});

/** The directory of a node's data: the value of `--data-dir` in a command. */
export function dataDirectoryOf(command: readonly string[]): string | undefined {
  return command.find((argument) => argument.startsWith('--data-dir='))?.slice('--data-dir='.length);
}
