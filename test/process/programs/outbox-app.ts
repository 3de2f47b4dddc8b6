// An application: it writes orders with their tasks, in transactions that are committed or rolled back, until it is killed.
// Arguments: the database, the prefix of its orders.
import { setTimeout as delay } from 'node:timers/promises';
import { openShop } from './outbox-shop.ts';

const [database = '', prefix = ''] = process.argv.slice(2);
const shop = await openShop(database);
for (let n = 0; ; n++) {
  const id = `${prefix}-${n}`;
  const isKept = n % 5 !== 0;
  try {
    await shop.transaction(async (tx) => {
      await tx(shop.insertOrder, [id]);
      await shop.outbox.enqueue(tx, n % 2 === 0 ? 'shop#even' : 'shop#odd', { id, at: Date.now() });
      if (!isKept) throw new Error('no stock');
    });
  } catch (error) {
    if (isKept) throw error;
  }
  await delay(5);
}
