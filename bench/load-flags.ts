/**
 * Flags of every process that generates load, for our node and for other queues; `docs/operate/sizing.md` recommends them to
 * users. Without the first two V8 makes a full garbage collection for each 64 MB of messages, on the cores that the servers need.
 * Without the third it may take calls in flight for objects that live long, in some processes and not in others.
 */
export const LOAD_FLAGS = [
  '--initial-old-space-size=128',
  '--external-memory-accounted-in-global-limit',
  '--no-allocation-site-pretenuring',
] as const;
