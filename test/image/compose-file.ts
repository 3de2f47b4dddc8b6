import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root } from '../support/paths.ts';

export const composeFile = join(root, 'deploy', 'compose.yaml');

/** A service of a compose file, as far as tests look at it. */
interface ComposeService {
  readonly image: string;
  readonly build: { readonly context: string; readonly dockerfile: string };
  readonly user: string;
  readonly read_only: boolean;
  readonly tmpfs: readonly string[];
  readonly hostname: string;
  /** For example `30s`. */
  readonly stop_grace_period: string;
  readonly command: readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
}

export interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

/** A service whose image is not ours. */
interface OtherService {
  readonly image: string;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
}

/** The contents of `deploy/compose-postgres.yaml`. */
export const postgresCompose = parse(readFileSync(join(root, 'deploy', 'compose-postgres.yaml'), 'utf8'), {
  merge: true,
}) as {
  readonly services: Readonly<Record<string, ComposeService | OtherService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
};

/** The contents of `deploy/compose.yaml`, with its anchors resolved. */
export const compose = parse(readFileSync(composeFile, 'utf8'), { merge: true }) as Compose;
