import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findCommand } from '../commands.ts';
import { accepts, freePort, LOOPBACK, type ServerKind, Service } from './server.ts';

const INSTALL = 'apt-get install rabbitmq-server';
const command = () => findCommand('rabbitmq-server', INSTALL);
const portMapper = () => findCommand('epmd', INSTALL);

/** One RabbitMQ broker without plug-ins. Its queue is durable: see the client. */
export const rabbitmq: ServerKind = {
  find() {
    command();
    portMapper();
  },
  async start(dir) {
    const [port, epmdPort, distPort] = await Promise.all([freePort(), freePort(), freePort()]);
    const at = (name: string): string => join(dir, name);
    await mkdir(at('log'));
    await writeFile(at('rabbitmq.conf'), `listeners.tcp.1 = ${LOOPBACK}:${port}\n`);
    await writeFile(at('enabled_plugins'), '[].\n');
    const env: NodeJS.ProcessEnv = {
      PATH: `${dirname(command())}:${process.env.PATH}`,
      HOME: dir, // for the Erlang cookie
      LANG: 'C.UTF-8',
      ERL_EPMD_ADDRESS: LOOPBACK,
      ERL_EPMD_PORT: String(epmdPort),
      RABBITMQ_NODENAME: 'bench@localhost',
      RABBITMQ_DIST_PORT: String(distPort),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
      RABBITMQ_CONF_ENV_FILE: '/dev/null',
      RABBITMQ_CONFIG_FILE: at('rabbitmq.conf'),
      RABBITMQ_ENABLED_PLUGINS_FILE: at('enabled_plugins'),
      RABBITMQ_GENERATED_CONFIG_DIR: at('generated'),
      RABBITMQ_LOG_BASE: at('log'),
      RABBITMQ_MNESIA_BASE: at('mnesia'),
      RABBITMQ_PID_FILE: at('pid'),
    };
    // Otherwise the broker starts an epmd that outlives it.
    const epmd = new Service('epmd', portMapper(), ['-address', LOOPBACK, '-port', String(epmdPort)], { env });
    await epmd.until(() => accepts(epmdPort));
    const broker = new Service('rabbitmq-server', command(), [], { env, cwd: dir });
    await broker.until(() => accepts(port));
    return {
      endpoint: `${LOOPBACK}:${port}`,
      version: 'rabbitmq',
      pids: [broker.pid],
      async stop() {
        await broker.stop();
        await epmd.stop();
      },
    };
  },
};
