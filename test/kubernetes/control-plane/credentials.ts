import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What the programs of a control plane need to trust each other and their administrator. */
export interface Credentials {
  /** Token of an administrator. */
  readonly token: string;
  /** File with the tokens that the API server accepts. */
  readonly tokenFile: string;
  /** File with the key that signs the tokens of service accounts. */
  readonly serviceAccountKeyFile: string;
}

/** Writes new credentials into a directory. */
export async function newCredentials(directory: string): Promise<Credentials> {
  const token = randomUUID();
  const tokenFile = join(directory, 'tokens.csv');
  await writeFile(tokenFile, `${token},admin,admin,system:masters\n`);
  const serviceAccountKeyFile = join(directory, 'service-accounts.key');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  await writeFile(serviceAccountKeyFile, privateKey.export({ type: 'pkcs1', format: 'pem' }));
  return { token, tokenFile, serviceAccountKeyFile };
}

/** A configuration for kubectl, helm and the controller manager. JSON is YAML, too. */
export function kubeconfig({
  server,
  certificateFile,
  token,
}: {
  readonly server: string;
  readonly certificateFile: string;
  readonly token: string;
}): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server, 'certificate-authority': certificateFile } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'admin' } }],
    'current-context': 'test',
  });
}
