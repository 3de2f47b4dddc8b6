import { good, type Row } from '../panel.ts';
import { ofProcess, orNone, rate, series } from '../queries.ts';

/** What nodes and proxies use, and their state. */
export const programs: Row = {
  title: 'Programs and machines',
  panels: [
    {
      title: 'Delay of the event loop (p99)',
      description:
        'How late a program gets to its work. Above a tenth of a second, a processor is too slow or a program overloaded.',
      shown: 'lines',
      unit: 's',
      queries: { '{{instance}}': ofProcess('nodejs_eventloop_lag_p99_seconds') },
      thresholds: good(['orange', 0.1]),
    },
    {
      title: 'Processor',
      description: 'Processor time per second. The event loop uses at most 1; threads of the store come in addition.',
      shown: 'lines',
      unit: 'short',
      queries: {
        '{{instance}}': `${rate('process_cpu_seconds_total{namespace=~"$namespace",job=~"$job",instance=~"$instance"}')} and on (job, instance) ${series('build_info')}`,
      },
    },
    {
      title: 'Memory',
      description: 'What the program uses of the memory that it may use. Above 1, the system may kill it.',
      shown: 'lines',
      unit: 'percentunit',
      queries: {
        '{{instance}}': `process_resident_memory_bytes{namespace=~"$namespace",job=~"$job",instance=~"$instance"} / on (job, instance) ${series('memory_bytes')}`,
      },
      thresholds: good(['red', 1]),
    },
    {
      title: 'Parts of the memory',
      description:
        'The largest size of each part, cached tasks as they are now, and requests and replies on their way.',
      shown: 'lines',
      unit: 'bytes',
      queries: {
        'at most: {{part}}': `max by (part) (${series('memory_part_bytes')})`,
        'cached tasks': `max(${series('cache_bytes')})`,
        'requests in progress': `max(${series('in_flight_bytes')})`,
        'requests that arrive': `max(${series('receiving_bytes')})`,
        'replies not read': `max(${series('unread_reply_bytes')})`,
        'names of waits': `max(${series('waiting_bytes')})`,
      },
    },
    {
      title: 'Size of the store',
      description:
        'Of each data directory on its disk, or of the tables in the database, and memory that is set aside for it.',
      shown: 'lines',
      unit: 'bytes',
      queries: { '{{kind}} {{instance}}': series('store_bytes') },
    },
    {
      title: 'Free space on disks',
      description:
        'Below the threshold, the node refuses new tasks and still completes the others. A shared database has no disk here.',
      shown: 'lines',
      unit: 'bytes',
      queries: {
        'free {{instance}}': series('disk_free_bytes'),
        'threshold {{instance}}': series('disk_full_below_bytes'),
      },
      alerts: ['DiskFull', 'DiskNearlyFull'],
    },
    {
      title: 'Connections and requests',
      description:
        'Open connections, connections that were refused because too many were open, and requests in progress.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'open {{instance}}': series('connections'),
        'in progress {{instance}}': series('in_flight_requests'),
        'refused per second {{instance}}': rate(series('refused_connections_total')),
      },
    },
    {
      title: 'Clocks',
      description:
        'How far the clocks of members are from each other, and the clock of each engine from its system clock.',
      shown: 'lines',
      unit: 's',
      queries: {
        'member {{member}}': orNone('member', `max by (member) (abs(${series('member_clock_difference_seconds')}))`),
        'engine {{instance}}': series('clock_ahead_seconds'),
      },
      alerts: ['ClockDifference'],
    },
    {
      title: 'Backups',
      description: 'Bytes per second that nodes send to backups, and partitions that are sent now.',
      shown: 'lines',
      unit: 'short',
      queries: {
        'bytes per second': `sum(${rate(series('backup_bytes_total'))})`,
        partitions: `sum(${series('running_backups')})`,
      },
      alerts: ['BackupTooOld', 'NoBackup'],
    },
    {
      title: 'State of the nodes',
      description: 'The state of each node, as /readyz says it. Only "serving" and "full" serve.',
      shown: 'states',
      unit: 'none',
      queries: { '{{instance}} {{state}}': `${series('health')} == 1` },
      thresholds: [['blue', null]],
      alerts: ['NodeNotServing'],
    },
    {
      title: 'Versions',
      description:
        'Programs by their version of TaskMaster and of Node.js. Two versions are normal only during an upgrade.',
      shown: 'lines',
      unit: 'none',
      queries: { '{{version}} {{node}}': `count by (version, node) (${series('build_info')})` },
    },
    {
      title: 'TLS, per second',
      description: 'Handshakes that failed or were completed, and changed files that were taken over.',
      shown: 'lines',
      unit: 'ops',
      queries: {
        '{{result}}': orNone('result', `sum by (result) (${rate(series('tls_handshakes_total'))})`),
        'files taken over': `sum(${rate(series('tls_reloads_total'))})`,
      },
      alerts: ['CertificateExpiresSoon', 'ReloadFailed'],
    },
  ],
};
