import { expect, test } from 'vitest';
import { limitConnections } from './limit-connections.ts';

const auto = { grpc: { maxConnections: 0, maxConnectionsPerAddress: 0 }, http: { maxConnections: 200 } };

test.each([
  [300, 87, 29],
  [1_024, 414, 137],
  [1_048_576, 10_000, 200],
])('%i descriptors allow %i connections of gRPC and %i of HTTP', (descriptors, grpc, http) => {
  const limited = limitConnections(auto, descriptors);
  expect(limited.grpc.maxConnections).toBe(grpc);
  expect(limited.grpc.maxConnectionsPerAddress).toBe(Math.ceil(grpc / 2));
  expect(limited.http.maxConnections).toBe(http);
});

test('settings count where the descriptors allow them', () => {
  const chosen = { grpc: { maxConnections: 100, maxConnectionsPerAddress: 90 }, http: { maxConnections: 10 } };
  expect(limitConnections(chosen, 1_024)).toEqual(chosen);
  expect(limitConnections(chosen, 200)).toMatchObject({ grpc: { maxConnections: 46, maxConnectionsPerAddress: 46 } });
});
