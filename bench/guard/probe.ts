import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { GCProfiler, getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/*
 * A module for servers, loaded with `--import`. Its URL has a directory behind the `?`. It listens on a socket there and sends
 * each client the usage of the process since the previous client. V8 does not count allocations, so they are computed from the
 * growth of the heap between garbage collections.
 */

/** One line of JSON: the usage since the previous line. */
export interface Usage {
  /** CPU time of all threads, in µs. */
  readonly cpuUs: number;
  /** CPU time of the thread that runs the event loop, in µs. */
  readonly mainCpuUs: number;
  /** Bytes allocated on the main thread's heap, without the memory of buffers outside of it. */
  readonly allocatedBytes: number;
}

export const SOCKET = 'probe.sock';

if (isMainThread) listen(new URL(import.meta.url).search.slice(1));

function listen(dir: string): void {
  if (dir === '') return; // imported for its types
  const path = join(decodeURIComponent(dir), `${process.pid}-${SOCKET}`);
  // A node may restart itself in the same process.
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
