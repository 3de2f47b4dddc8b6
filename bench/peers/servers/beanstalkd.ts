import { findCommand, versionOf } from '../commands.ts';
import { accepts, freePort, LOOPBACK, type ServerKind, Service } from './server.ts';

const command = () => findCommand('beanstalkd', 'apt-get install beanstalkd');

/** beanstalkd with its binlog, with a sync at every write. */
export const beanstalkd: ServerKind = {
  find: command,
  async start(dir) {
    const port = await freePort();
    const service = new Service('beanstalkd', command(), ['-l', LOOPBACK, '-p', String(port), '-b', dir, '-f', '0']);
    await service.until(() => accepts(port));
    return {
      endpoint: `${LOOPBACK}:${port}`,
      version: `beanstalkd ${versionOf(command(), ['-v'], /([\d.]+)/)}`,
      pids: [service.pid],
      stop: () => service.stop(),
    };
  },
};
