import { expect, test } from 'vitest';
import { availableMemory } from './available-memory.ts';
import { GIB, MIB } from './sizes.ts';

const V2_MOUNT = '29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate';
const V1_MOUNT = '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory';
const V1_CPU = '32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu';
const UNLIMITED_V1 = '9223372036854771712';
const machine = { bytes: 64 * GIB, source: 'machine' };
const cgroup = (bytes: number) => ({ bytes, source: 'cgroup' });

interface Files {
  /** `/proc/self/cgroup`. */
  readonly groups?: string;
  /** `/proc/self/mountinfo`. */
  readonly mounts?: readonly string[];
  /** The other files, by path. */
  readonly [path: `/sys/${string}`]: string;
}

test.each<[what: string, Files, { bytes: number; source: string }]>([
  ['without cgroups', {}, machine],
  [
    'version 2, in a service',
    {
      groups: '0::/system.slice/taskmaster.service\n',
      mounts: [V2_MOUNT],
      '/sys/fs/cgroup/system.slice/taskmaster.service/memory.max': `${512 * MIB}\n`,
      '/sys/fs/cgroup/system.slice/taskmaster.service/memory.high': 'max\n',
    },
    cgroup(512 * MIB),
  ],
  [
    'version 2, without a limit',
    {
      groups: '0::/user.slice\n',
      mounts: [V2_MOUNT],
      '/sys/fs/cgroup/user.slice/memory.max': 'max\n',
      '/sys/fs/cgroup/user.slice/memory.high': 'max\n',
    },
    machine,
  ],
  [
    'version 2, with a lower limit of a parent',
    {
      groups: '0::/a/b/c\n',
      mounts: [V2_MOUNT],
      '/sys/fs/cgroup/a/b/c/memory.max': `${2 * GIB}`,
      '/sys/fs/cgroup/a/b/memory.max': 'max',
      '/sys/fs/cgroup/a/memory.max': `${GIB}`,
    },
    cgroup(GIB),
  ],
  [
    'version 2, with a lower memory.high',
    {
      groups: '0::/a\n',
      mounts: [V2_MOUNT],
      '/sys/fs/cgroup/a/memory.max': `${GIB}`,
      '/sys/fs/cgroup/a/memory.high': `${768 * MIB}`,
    },
    cgroup(768 * MIB),
  ],
  [
    'version 2, in a container with a namespace of its own',
    { groups: '0::/\n', mounts: [V2_MOUNT], '/sys/fs/cgroup/memory.max': `${300 * MIB}` },
    cgroup(300 * MIB),
  ],
  [
    'version 2, outside of what is mounted',
    { groups: '0::/../other\n', mounts: [V2_MOUNT], '/sys/fs/cgroup/memory.max': `${300 * MIB}` },
    cgroup(300 * MIB),
  ],
  [
    'version 1',
    {
      groups: `12:cpu:/docker/x\n4:memory:/docker/x\n0::/system.slice\n`,
      mounts: [V1_CPU, V1_MOUNT],
      '/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes': `${400 * MIB}\n`,
      '/sys/fs/cgroup/memory/docker/memory.limit_in_bytes': UNLIMITED_V1,
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': UNLIMITED_V1,
    },
    cgroup(400 * MIB),
  ],
  [
    'version 1, in a container that mounts only its own cgroup',
    {
      groups: '4:cpu,memory:/docker/x\n',
      mounts: ['35 31 0:32 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,cpu,memory'],
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${400 * MIB}`,
    },
    cgroup(400 * MIB),
  ],
  [
    'version 1, without a limit',
    { groups: '4:memory:/\n', mounts: [V1_MOUNT], '/sys/fs/cgroup/memory/memory.limit_in_bytes': UNLIMITED_V1 },
    machine,
  ],
  [
    'both versions, with the limit in version 1',
    {
      groups: '4:memory:/x\n0::/x\n',
      mounts: [V1_MOUNT, '41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw'],
      '/sys/fs/cgroup/memory/x/memory.limit_in_bytes': `${400 * MIB}`,
    },
    cgroup(400 * MIB),
  ],
  [
    'a limit above the memory of the machine',
    { groups: '0::/\n', mounts: [V2_MOUNT], '/sys/fs/cgroup/memory.max': `${128 * GIB}` },
    machine,
  ],
])('%s', (_what, { groups, mounts, ...files }, expected) => {
  const all: Readonly<Record<string, string | undefined>> = {
    ...files,
    '/proc/self/cgroup': groups,
    '/proc/self/mountinfo': mounts?.join('\n'),
  };
  expect(availableMemory({ read: (path) => all[path], machineBytes: 64 * GIB })).toEqual(expected);
});

test('the limit of this process is that of this machine or less', () => {
  expect(availableMemory().bytes).toBeGreaterThan(64 * MIB);
});
