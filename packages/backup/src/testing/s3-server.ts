import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** The credentials that the server knows. */
const KEY_ID = 'test-key';
const SECRET = 'test-secret';

interface Answer {
  readonly status: number;
  readonly body?: Uint8Array | string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A small S3 server: one bucket in memory, pages of a listing with three keys. It checks the signature (version 4) of each
 * request and the checksum of its body.
 */
export class S3Server implements AsyncDisposable {
  /** By key. */
  readonly objects = new Map<string, Uint8Array>();
  /** Status of the answer to each request, in order. */
  readonly statuses: number[] = [];
  /** Takes a request over, if it returns true. Nothing else answers then. */
  take: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  /** May answer in place of the server. */
  intercept: (method: string, key: string) => Answer | undefined = () => undefined;
  readonly bucket: string;
  readonly #server: Server;

  private constructor(bucket: string) {
    this.bucket = bucket;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(bucket: string): Promise<S3Server> {
    const server = new S3Server(bucket);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  /** The variables that lead the client of AWS here. */
  get env(): Record<string, string> {
    const address = this.#server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    return {
      AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`,
      AWS_ACCESS_KEY_ID: KEY_ID,
      AWS_SECRET_ACCESS_KEY: SECRET,
      AWS_MAX_ATTEMPTS: '1',
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.take(request, response)) return;
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { status, body = '', headers = {} } = this.#answer(request, Buffer.concat(chunks));
    this.statuses.push(status);
    const content = request.method === 'HEAD' ? '' : body;
    response.writeHead(status, { 'content-length': Buffer.byteLength(body), ...headers }).end(content);
  }

  #answer(request: IncomingMessage, body: Buffer): Answer {
    const { method = '' } = request;
    const url = new URL(request.url ?? '', 'http://localhost');
    if (!isSigned(request, url, body)) return failure(403, 'SignatureDoesNotMatch');
    const [, bucket, ...path] = url.pathname.split('/').map(decodeURIComponent);
    if (bucket !== this.bucket) return failure(404, 'NoSuchBucket');
    const key = path.join('/');
    return this.intercept(method, key) ?? this.#act(method, key, url, request, body);
  }

  #act(method: string, key: string, url: URL, request: IncomingMessage, body: Buffer): Answer {
    if (key === '') return this.#list(url.searchParams);
    const found = this.objects.get(key);
    switch (method) {
      case 'PUT': {
        const source = request.headers['x-amz-copy-source'];
        if (typeof source !== 'string') {
          this.objects.set(key, body);
          return { status: 200 };
        }
        const copied = this.objects.get(decodeURIComponent(source).split('/').slice(1).join('/'));
        if (!copied) return failure(404, 'NoSuchKey');
        this.objects.set(key, copied);
        return { status: 200, body: '<CopyObjectResult></CopyObjectResult>' };
      }
      case 'DELETE':
        this.objects.delete(key);
        return { status: 204 };
      default:
        return found ? { status: 200, body: found } : failure(404, 'NoSuchKey');
    }
  }

  #list(query: URLSearchParams): Answer {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted();
    const page = keys.slice(0, 3);
    const next = keys.length > 3 ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    const contents = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('');
    return { status: 200, body: `<ListBucketResult>${contents}${next}</ListBucketResult>` };
  }
}

/** An error as S3 sends it. */
export const failure = (status: number, code: string): Answer => ({
  status,
  body: `<Error><Code>${code}</Code><Message>${code} of the test</Message></Error>`,
});

const hashOf = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: Uint8Array | string, data: string): Buffer => createHmac('sha256', key).update(data).digest();

/** Computes the signature (version 4) of the received request. */
function isSigned({ method, headers }: IncomingMessage, url: URL, body: Uint8Array): boolean {
  const pattern =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d+)\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/;
  const [, id, day = '', region = '', names = '', signature = ''] = pattern.exec(headers.authorization ?? '') ?? [];
  const content = headers['x-amz-content-sha256'];
  if (id !== KEY_ID || content !== hashOf(body) || !names.split(';').includes('host')) return false;
  const query = [...url.searchParams]
    .map((pair) => pair.map((text) => encodeURIComponent(text)).join('='))
    .toSorted()
    .join('&');
  const signed = names.split(';').map((name) => `${name}:${String(headers[name]).trim()}\n`);
  const canonical = [method, url.pathname, query, signed.join(''), names, content].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hashOf(canonical)].join('\n');
  const key = [region, 's3', 'aws4_request'].reduce<Buffer>(hmac, hmac(`AWS4${SECRET}`, day));
  const expected = hmac(key, text).toString('hex');
  return signature.length === expected.length && timingSafeEqual(Buffer.from(signature), Buffer.from(expected));
}
