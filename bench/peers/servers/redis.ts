import { findCommand, versionOf } from '../commands.ts';
import { accepts, freePort, LOOPBACK, type ServerKind, Service } from './server.ts';

const command = () => findCommand('redis-server', 'apt-get install redis-server');

/** Redis with its append-only file, with a sync before every answer, and without snapshots. */
export const redis: ServerKind = {
  find: command,
  async start(dir) {
    const port = await freePort();
    const place = ['--bind', LOOPBACK, '--port', String(port), '--dir', dir, '--daemonize', 'no'];
    const durability = ['--save', '', '--appendonly', 'yes', '--appendfsync', 'always'];
    const service = new Service('redis-server', command(), [...place, ...durability]);
    await service.until(() => accepts(port));
    return {
      endpoint: `${LOOPBACK}:${port}`,
      version: `redis ${versionOf(command(), ['--version'], /v=([\d.]+)/)}`,
      pids: [service.pid],
      stop: () => service.stop(),
    };
  },
};
