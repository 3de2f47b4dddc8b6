/**
 * Flags of every process that generates load, for our node and for other queues; `docs/operate/sizing.md` recommends them to
 * users. Without them V8 makes a full garbage collection for each 64 MB of messages, on the cores that the servers need.
 */
export const LOAD_FLAGS = ['--initial-old-space-size=128', '--external-memory-accounted-in-global-limit'] as const;
