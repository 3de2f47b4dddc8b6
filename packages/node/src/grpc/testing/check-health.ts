import { type Client, credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import { service as healthService } from 'grpc-health-check';

type Health = Client & Record<'Check', (request: object, callback: (e: Error | null, reply: object) => void) => void>;
const HealthClient = makeGenericClientConstructor(healthService, 'health');

/** What grpc.health.v1 says of a service; '' is the node. */
export async function checkHealth(port: number, service = ''): Promise<unknown> {
  const client = new HealthClient(`127.0.0.1:${port}`, credentials.createInsecure()) as unknown as Health;
  try {
    return await new Promise((resolve, reject) => {
      client.Check({ service }, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  } finally {
    client.close();
  }
}
