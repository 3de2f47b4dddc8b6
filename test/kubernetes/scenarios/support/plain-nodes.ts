import type { V1Service, V1StatefulSet } from '@kubernetes/client-node';

const labels = { app: 'plain' };

const service: V1Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'nodes' },
  spec: { clusterIP: 'None', publishNotReadyAddresses: true, selector: labels, ports: [{ name: 'grpc', port: 7400 }] },
};

const clients: V1Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'queues' },
  spec: { selector: labels, ports: [{ name: 'grpc', port: 7400 }] },
};

const join = ['plain-0', 'plain-1', 'plain-2'].map((pod) => `${pod}.nodes:7400`).join(',');

const statefulSet: V1StatefulSet = {
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'plain' },
  spec: {
    serviceName: 'nodes',
    replicas: 3,
    podManagementPolicy: 'Parallel',
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        terminationGracePeriodSeconds: 30,
        securityContext: { runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, runAsNonRoot: true },
        containers: [
          {
            name: 'node',
            image: 'taskmaster',
            command: ['taskmaster-node'],
            args: [
              '--bootstrap',
              `--join=${join}`,
              '--host=0.0.0.0',
              '--insecure',
              '--data-dir=/data/node',
              '--json',
              '--cluster-advertise-host=$(POD).nodes',
              '--store-reserve-bytes=1MiB',
              '--engine-partitions=32',
            ],
            env: [{ name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
            ports: [{ name: 'http', containerPort: 7401 }],
            startupProbe: { httpGet: { path: '/livez', port: 'http' }, periodSeconds: 1, failureThreshold: 60 },
            readinessProbe: { httpGet: { path: '/readyz', port: 'http' }, periodSeconds: 1 },
            livenessProbe: { grpc: { port: 7400 }, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
            lifecycle: { preStop: { exec: { command: ['/bin/sh', '-c', 'echo stopping > /data/stopping'] } } },
            volumeMounts: [{ name: 'data', mountPath: '/data' }],
            securityContext: { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
          },
        ],
      },
    },
    volumeClaimTemplates: [
      {
        metadata: { name: 'data' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    ],
  },
};

/** Three nodes with one command line, without the chart: a cluster to try the kubelet with. */
export const plainNodes = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [service, clients, statefulSet] });
