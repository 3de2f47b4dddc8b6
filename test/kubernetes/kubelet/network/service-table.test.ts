import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import { hostsLines, servicePorts, serviceVariables } from './service-table.ts';

const service = (name: string, clusterIP: string): V1Service => ({
  metadata: { name, namespace: 'queues' },
  spec: {
    clusterIP,
    ports: [
      { name: 'grpc', port: 7400, protocol: 'TCP' },
      { name: 'gossip', port: 7402, protocol: 'UDP' },
    ],
  },
});

const slice = (name: string, endpoints: V1EndpointSlice['endpoints']): V1EndpointSlice => ({
  addressType: 'IPv4',
  metadata: { namespace: 'queues', labels: { 'kubernetes.io/service-name': name } },
  ports: [
    { name: 'grpc', port: 17400 },
    { name: 'gossip', port: 17402 },
  ],
  endpoints,
});

const services = [service('tm', '10.96.0.7'), service('tm-nodes', 'None')];
const slices = [
  slice('tm', [
    { addresses: ['10.244.0.5'], conditions: { ready: true } },
    { addresses: ['10.244.0.6'], conditions: { ready: false } },
  ]),
  slice('tm-nodes', [{ addresses: ['10.244.0.2'], hostname: 'tm-0', conditions: { ready: true } }]),
];

test('a Service forwards its TCP ports to its ready endpoints', () => {
  expect(servicePorts(services, slices)).toEqual([{ address: '10.96.0.7', port: 7400, targets: ['10.244.0.5:17400'] }]);
});

test('names stand for the address of a Service, or for the pods of a headless one', () => {
  expect(hostsLines('queues', services, slices)).toEqual([
    '10.96.0.7 tm tm.queues tm.queues.svc tm.queues.svc.cluster.local',
    '10.244.0.2 tm-nodes tm-nodes.queues tm-nodes.queues.svc tm-nodes.queues.svc.cluster.local',
    '10.244.0.2 tm-0.tm-nodes tm-0.tm-nodes.queues tm-0.tm-nodes.queues.svc tm-0.tm-nodes.queues.svc.cluster.local',
  ]);
});

test('other namespaces need the namespace in a name', () => {
  expect(hostsLines('default', services, slices)[0]).toBe(
    '10.96.0.7 tm.queues tm.queues.svc tm.queues.svc.cluster.local',
  );
});

test('containers get variables for the Services of their namespace that have an address', () => {
  expect(serviceVariables('default', services, true)).toEqual({});
  expect(serviceVariables('queues', services, false)).toEqual({});
  expect(serviceVariables('queues', services, true)).toMatchObject({
    TM_SERVICE_HOST: '10.96.0.7',
    TM_SERVICE_PORT: '7400',
    TM_SERVICE_PORT_GOSSIP: '7402',
    TM_PORT: 'tcp://10.96.0.7:7400',
    TM_PORT_7402_UDP: 'udp://10.96.0.7:7402',
  });
});
