/** Number of groups of the queues of a load, and so about the number of their partitions. */
const GROUPS = 100;

/** Names of many queues. */
export function spreadNames(name: string, queues: number): readonly string[] {
  return Array.from({ length: queues }, (_, number) => `g${number % GROUPS}#${name}-${number}`);
}

/** The queue of each call: always the same, or many in turn. */
export function queueNamer(name: string, spread: number | undefined): () => string {
  if (spread === undefined) return () => name;
  const names = spreadNames(name, spread);
  let next = 0;
  return () => names[next++ % names.length] ?? name;
}
