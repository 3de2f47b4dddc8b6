import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname, join, relative } from 'node:path';

/** The memory that this process may use at most. */
export interface AvailableMemory {
  readonly bytes: number;
  /** Where the figure comes from: a limit of the process's cgroup or of a parent, or the size of the machine. */
  readonly source: 'cgroup' | 'machine';
}

/** Where the figures come from. */
export interface MemorySources {
  /** The text of a file; undefined if it cannot be read. */
  readonly read: (path: string) => string | undefined;
  readonly machineBytes: number;
}

/** Files with a limit in bytes, by the version of cgroups. `memory.high` slows a process down before `memory.max` ends it. */
const LIMIT_FILES = { v1: ['memory.limit_in_bytes'], v2: ['memory.max', 'memory.high'] } as const;

/** The smallest of the machine's memory and the limits of the process's cgroup and its parents. */
export function availableMemory(sources: MemorySources = systemSources()): AvailableMemory {
  const { read, machineBytes } = sources;
  const limits = directoriesOf(read).flatMap(({ version, path }) =>
    LIMIT_FILES[version].flatMap((file) => limitIn(read(join(path, file))) ?? []),
  );
  const least = Math.min(...limits);
  // Without a limit, version 1 has a number that no machine reaches.
  return least < machineBytes ? { bytes: least, source: 'cgroup' } : { bytes: machineBytes, source: 'machine' };
}

function systemSources(): MemorySources {
  return {
    machineBytes: totalmem(),
    read: (path) => {
      try {
        return readFileSync(path, 'utf8');
      } catch {
        // Without cgroups, or outside of Linux, there is no such file.
        return undefined;
      }
    },
  };
}

/** `max` is no limit, and so is 0 as the limit of a cgroup that is being removed. */
function limitIn(text: string | undefined): number | undefined {
  const digits = text?.trim() ?? '';
  return /^[1-9]\d*$/.test(digits) ? Number(digits) : undefined;
}

interface CgroupDirectory {
  readonly version: keyof typeof LIMIT_FILES;
  readonly path: string;
}

/** The directories of the process's cgroups and their parents, as far up as they are mounted. */
function directoriesOf(read: MemorySources['read']): CgroupDirectory[] {
  const groups = groupsIn(read('/proc/self/cgroup') ?? '');
  return mountsIn(read('/proc/self/mountinfo') ?? '').flatMap(({ version, root, mountPoint }) => {
    const group = groups[version];
    if (group === undefined) return [];
    // In a container, the mount may show only a part of the hierarchy, and the path may lead out of it.
    const below = relative(root, group);
    const own = below.startsWith('..') ? mountPoint : join(mountPoint, below);
    const directories: CgroupDirectory[] = [];
    for (let path = own; ; path = dirname(path)) {
      directories.push({ version, path });
      if (path === mountPoint || path === dirname(path)) return directories;
    }
  });
}

/** The paths of the cgroups that limit memory. A line is `number:controllers:path`; version 2 has no controllers. */
function groupsIn(text: string): { v1?: string; v2?: string } {
  const groups: { v1?: string; v2?: string } = {};
  for (const line of text.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (path === undefined) continue;
    if (controllers === '') groups.v2 = path;
    else if (controllers?.split(',').includes('memory')) groups.v1 = path;
  }
  return groups;
}

interface CgroupMount extends Pick<CgroupDirectory, 'version'> {
  /** The cgroup that the mount shows as its top. */
  readonly root: string;
  readonly mountPoint: string;
}

/** A line is `id parent device root mountPoint options … - type source superOptions`. */
function mountsIn(text: string): CgroupMount[] {
  return text.split('\n').flatMap((line): CgroupMount[] => {
    const [mount = '', filesystem = ''] = line.split(' - ');
    const [, , , root, mountPoint] = mount.split(' ');
    const [type, , superOptions = ''] = filesystem.split(' ');
    if (root === undefined || mountPoint === undefined) return [];
    if (type === 'cgroup2') return [{ version: 'v2', root, mountPoint }];
    const limitsMemory = type === 'cgroup' && superOptions.split(',').includes('memory');
    return limitsMemory ? [{ version: 'v1', root, mountPoint }] : [];
  });
}
