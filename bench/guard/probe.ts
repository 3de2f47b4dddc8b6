import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { GCProfiler, getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/*
 * Loaded into a server with `--import`, its directory behind the `?` of its own URL: tells whoever connects to the socket
 * there what the process has used since somebody last asked. V8 has no count of what was ever allocated, so it is put
 * together from how much the heap grew between garbage collections.
 */

/** One line of JSON, of what was used since the one before. */
export interface Usage {
  /** CPU time of all threads, in µs. */
  readonly cpuUs: number;
  /** CPU time of the thread that runs the event loop, in µs. */
  readonly mainCpuUs: number;
  /** Allocated on the main thread's heap; what buffers hold outside of it is not in there. */
  readonly allocatedBytes: number;
}

export const SOCKET = 'probe.sock';

if (isMainThread) listen(new URL(import.meta.url).search.slice(1));

function listen(dir: string): void {
  if (dir === '') return; // imported for its types
  const path = join(decodeURIComponent(dir), `${process.pid}-${SOCKET}`);
  // Nodes begin themselves anew, as the same process.
  rmSync(path, { force: true });
  let profiler = begin();
  let heapBytes = usedBytes();
  let cpu = process.cpuUsage();
  let mainCpu = process.threadCpuUsage();
  createServer((socket) => {
    const collections = profiler.stop()?.statistics ?? [];
    const sinceCpu = process.cpuUsage(cpu);
    const sinceMainCpu = process.threadCpuUsage(mainCpu);
    let allocatedBytes = -heapBytes;
    for (const { beforeGC, afterGC } of collections) {
      allocatedBytes += beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize;
    }
    allocatedBytes += usedBytes();
    const usage: Usage = {
      cpuUs: sinceCpu.user + sinceCpu.system,
      mainCpuUs: sinceMainCpu.user + sinceMainCpu.system,
      allocatedBytes,
    };
    socket.end(`${JSON.stringify(usage)}\n`);
    profiler = begin();
    heapBytes = usedBytes();
    cpu = process.cpuUsage();
    mainCpu = process.threadCpuUsage();
  })
    .listen(path)
    .unref();
}

function begin(): GCProfiler {
  const profiler = new GCProfiler();
  profiler.start();
  return profiler;
}

function usedBytes(): number {
  return getHeapStatistics().used_heap_size;
}
