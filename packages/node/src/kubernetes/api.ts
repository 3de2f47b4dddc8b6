import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';

// Not imported: an import reads all names of a module, and some of this one load the whole client behind `fetch`.
const { request: httpRequest } = process.getBuiltinModule('node:http');
const { request: httpsRequest } = process.getBuiltinModule('node:https');

/** Where Kubernetes puts the credentials of a pod. */
const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';
const TIMEOUT_MS = 5_000;

/** The API server did not do what it was asked for. */
export class KubernetesError extends Error {
  override readonly name = 'KubernetesError';
  /** HTTP status of the answer. Undefined if there was none. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Where the API server is, and what the pod may show it. */
export interface ApiAccess {
  /** `https://10.96.0.1:443`. */
  readonly url: string;
  /** Namespace of the pod. */
  readonly namespace: string;
  /** Directory with the files `token` and `ca.crt`. Kubernetes replaces the token there before it expires. */
  readonly credentialsDir: string;
}

/** The access that Kubernetes gives to a pod. Rejects with `KubernetesError` outside of a pod. */
export async function accessOfPod(env: NodeJS.ProcessEnv, credentialsDir = SERVICE_ACCOUNT_DIR): Promise<ApiAccess> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (!host) throw new KubernetesError('this is not a pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set');
  const namespace = await credential(credentialsDir, 'namespace');
  const url = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return { url, namespace: namespace.trim(), credentialsDir };
}

async function credential(dir: string, name: string): Promise<string> {
  try {
    return await readFile(join(dir, name), 'utf8');
  } catch (cause) {
    const hint = 'mount the token of its service account (automountServiceAccountToken)';
    throw new KubernetesError(`the pod has no access to the API server: ${hint}`, undefined, { cause });
  }
}

/** Calls of the API server. Two calls on two objects do not need a client library with all kinds. */
export interface KubernetesApi {
  readonly namespace: string;
  /** The object at the path. Rejects with `KubernetesError`. */
  get(path: string): Promise<unknown>;
  /** Replaces the object at the path. Rejects with status 409 if it has changed since its `resourceVersion`. */
  put(path: string, object: unknown): Promise<unknown>;
}

export function openApi(access: ApiAccess): KubernetesApi {
  return {
    namespace: access.namespace,
    get: (path) => call(access, 'GET', path),
    put: (path, object) => call(access, 'PUT', path, JSON.stringify(object)),
  };
}

async function call({ url, credentialsDir }: ApiAccess, method: string, path: string, body?: string): Promise<unknown> {
  const token = (await credential(credentialsDir, 'token')).trim();
  const isTls = url.startsWith('https:');
  const ca = isTls ? await credential(credentialsDir, 'ca.crt') : undefined;
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' };
  const options = { method, headers, ca, signal: AbortSignal.timeout(TIMEOUT_MS) };
  const answered = new Promise<{ readonly status: number; readonly object: unknown }>((resolve, reject) => {
    const sent = (isTls ? httpsRequest : httpRequest)(new URL(path, url), options, (response) => {
      json(response).then((object) => resolve({ status: response.statusCode ?? 0, object }), reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
  const { status, object } = await answered.catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new KubernetesError(`${method} ${path}: the API server does not answer: ${why}`, undefined, { cause });
  });
  if (status >= 200 && status < 300) return object;
  throw new KubernetesError(`${method} ${path}: ${messageOf(object) ?? 'refused'} (${status})`, status);
}

function messageOf(object: unknown): string | undefined {
  const message = typeof object === 'object' && object !== null && 'message' in object ? object.message : undefined;
  return typeof message === 'string' ? message : undefined;
}
