import type { Row } from './panel.ts';
import { attention } from './rows/attention.ts';
import { calls } from './rows/calls.ts';
import { cluster } from './rows/cluster.ts';
import { database } from './rows/database.ts';
import { programs } from './rows/programs.ts';
import { proxies } from './rows/proxies.ts';
import { quotas } from './rows/quotas.ts';
import { work } from './rows/work.ts';

/** The rows of the dashboard, the most urgent first. `alerts`: the names of all alert rules. */
export const rowsOf = (alerts: readonly string[]): readonly Row[] => [
  attention(alerts),
  work,
  calls,
  programs,
  cluster,
  proxies,
  database,
  quotas,
];
