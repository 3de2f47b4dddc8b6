import { openMysql } from './databases.ts';
import { describeOnMariadb } from './mariadb-server.ts';
import { outboxContract } from './outbox-contract.ts';

describeOnMariadb('an outbox in MariaDB', (url) => {
  outboxContract(() => openMysql(url()));
});
