import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import { accessOfPod, openApi } from './api.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** An API server without TLS, and the API as a pod sees it. */
async function setUp(answer: Answer) {
  const credentials = await temporaryDirectory();
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await credentials[Symbol.asyncDispose]();
  });
  await writeFile(join(credentials.path, 'token'), 'secret-1\n');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    api: openApi({ url, namespace: 'queues', credentialsDir: credentials.path }),
    dir: credentials.path,
    server,
  };
}

describe('a call of the API server', () => {
  test('has the token of the pod, read anew each time', async () => {
    const tokens: (string | undefined)[] = [];
    const { api, dir } = await setUp((request, response) => {
      tokens.push(request.headers.authorization);
      response.end('{"kind":"ConfigMap"}');
    });
    expect(await api.get('/a')).toEqual({ kind: 'ConfigMap' });
    await writeFile(join(dir, 'token'), 'secret-2');
    await api.put('/a', {});
    expect(tokens).toEqual(['Bearer secret-1', 'Bearer secret-2']);
  });

  test('rejects with the message and the status of a refusal', async () => {
    const { api } = await setUp((_request, response) => {
      response.writeHead(403).end('{"message":"configmaps \\"tm\\" is forbidden"}');
    });
    await expect(api.get('/a')).rejects.toMatchObject({
      status: 403,
      message: expect.stringContaining('is forbidden'),
    });
  });

  test('rejects if there is no server, and if it does not speak JSON', async () => {
    const { api, server } = await setUp((_request, response) => response.end('hello'));
    await expect(api.get('/a')).rejects.toThrow('does not answer');
    server.closeAllConnections();
    server.close();
    await expect(api.get('/a')).rejects.toThrow('does not answer');
  });
});

describe('the access of a pod', () => {
  test('is what Kubernetes puts into its environment and files', async () => {
    await using dir = await temporaryDirectory();
    await writeFile(join(dir.path, 'namespace'), 'queues\n');
    const env = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    expect(await accessOfPod(env, dir.path)).toEqual({
      url: 'https://10.96.0.1:443',
      namespace: 'queues',
      credentialsDir: dir.path,
    });
    expect(await accessOfPod({ KUBERNETES_SERVICE_HOST: 'fd00::1' }, dir.path)).toMatchObject({
      url: 'https://[fd00::1]:443',
    });
  });

  test('does not exist outside of a pod, or without a service account', async () => {
    await using dir = await temporaryDirectory();
    await expect(accessOfPod({}, dir.path)).rejects.toThrow('not a pod');
    await expect(accessOfPod({ KUBERNETES_SERVICE_HOST: '10.96.0.1' }, dir.path)).rejects.toThrow('automount');
  });
});
