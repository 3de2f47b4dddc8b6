import type { ServerProcess } from './processes.ts';

/** The value of a server's metric, summed over all labels. */
export async function metricOf({ ready }: ServerProcess, name: string): Promise<number> {
  const response = await fetch(`http://${ready.http}/metrics`);
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith(name));
  const values = lines.filter((line) => /^[\w]+[ {]/.exec(line)?.[0].slice(0, -1) === name);
  if (values.length === 0) throw new Error(`the server has no metric ${name}`);
  return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
