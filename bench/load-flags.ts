/**
 * Of every process that makes load, ours and those of other queues: what `docs/operate/sizing.md` tells users whose processes
 * do so. Otherwise V8 collects everything there for each 64 MB of messages, on the cores that the servers need.
 */
export const LOAD_FLAGS = ['--initial-old-space-size=128', '--external-memory-accounted-in-global-limit'] as const;
