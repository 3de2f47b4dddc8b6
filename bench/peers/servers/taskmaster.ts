import type { ServerKind } from './server.ts';

/** One node with default settings. */
export const taskmaster: ServerKind = {
  find() {},
  async start(dir, processes) {
    const node = await processes.node(dir);
    return { endpoint: node.endpoint, version: 'this build', pids: [node.pid], stop: () => node.stop() };
  },
};
