/** Queues that a load is spread over are in so many groups, and so in as many partitions, or nearly. */
const GROUPS = 100;

/** Names of many queues. */
export function spreadNames(name: string, queues: number): readonly string[] {
  return Array.from({ length: queues }, (_, number) => `g${number % GROUPS}#${name}-${number}`);
}

/** Names the queue of each call: one and the same, or those of many in turn. */
export function queueNamer(name: string, spread: number | undefined): () => string {
  if (spread === undefined) return () => name;
  const names = spreadNames(name, spread);
  let next = 0;
  return () => names[next++ % names.length] ?? name;
}
