import { runCli } from '@taskmaster/cli/testing';
import { expect, test } from 'vitest';

/** No node is there: what is wrong on the command line is refused before a connection. */
const NOWHERE = '127.0.0.1:1';

test.each([
  ['a limit of no tasks', 'queues limit g#q --max-leased 0', /'0' is not a whole number from 1 to/],
  ['a limit of less than no tasks', 'queues limit g#q --max-leased -1', /'-1' is not a whole number from 1 to/],
  ['a limit that limits nothing', 'queues limit g#q', /give --max-leased or --rate/],
  ['a rate of no tasks', 'queues limit g#q --rate 0/1s', /'0' is not a whole number from 1 to/],
  ['a rate in no time', 'queues limit g#q --rate 5/0ms', /'0ms' is less than 1ms/],
  ['a rate without a time', 'queues limit g#q --rate 5', /'5' is not a rate such as 100\/1m/],
  ['a burst of no tasks', 'queues limit g#q --rate 5/1s --burst 0', /'0' is not a whole number from 1 to/],
  ['a burst without a rate', 'queues limit g#q --max-leased 1 --burst 5', /--burst is for --rate/],
  ['a limit of all groups', 'queues limit *#* --max-leased 1', /a pattern chooses queues of one group/],
  ['a pause of all groups', 'queues pause *#*', /a pattern chooses queues of one group/],
  ['a pause of a group without a pattern', 'queues pause g#', /The name of a queue must not be empty/],
  ['a pause for no time', 'queues pause g#q --for 0ms', /'0ms' is less than 1ms/],
  ['a pause for less than no time', 'queues pause g#q --for -1h', /'-1h' is not a duration/],
  ['a pause with two ends', 'queues pause g#q --for 1h --until 2100-01-01T00:00:00Z', /cannot be used with option/],
  ['settings of all groups', 'settings put *#* --max-attempts 3', /a pattern chooses queues of one group/],
  ['a weight of 0', 'settings put g#q --fair-turns --weight a=0', /'0' is not a whole number from 1 to/],
  ['a backlog of no tasks', 'settings put g#q --max-backlog 0', /'0' is not a whole number from 1 to/],
  ['a key backlog of less', 'settings put g#q --max-key-backlog -5', /'-5' is not a whole number from 1 to/],
  ['to keep out for no time', 'settings put g#q --keep-out 0ms', /'0ms' is less than 1ms/],
  ['results for no time', 'settings put g#q --result-retention 0ms', /'0ms' is less than 1ms/],
  ...[
    ['enqueue g#q x', '--key', '--limit-key', '--order-key', '--kind', '--parent-key'],
    ['queues limit g#q --max-leased 1', '--keys'],
    ['queues unlimit g#q', '--keys'],
    ['events g#q --follow', '--key'],
    ['signal g#q a', '--id', '--key'],
    ['bulk delete g#q --yes', '--error', '--key-prefix', '--kind'],
  ].flatMap(([command, ...flags]) =>
    flags.map((flag): [string, string, RegExp] => [
      `an empty ${flag}`,
      `${command} ${flag}=`,
      /argument '' is invalid. It must not be empty/,
    ]),
  ),
  ['a wait for no signals', 'enqueue g#q x --wait-for 0', /'0' is not a whole number from 1 to 10000/],
  ['a wait for less', 'enqueue g#q x --wait-for -1', /'-1' is not a whole number from 1 to 10000/],
  ['a wait of no time', 'enqueue g#q x --wait-for 1 --wait-timeout 0ms', /'0ms' is less than 1ms/],
  ['a timeout without a wait', 'enqueue g#q x --wait-timeout 1h', /go with --wait-for/],
  ['two parents', 'enqueue g#q x --parent-pid a --parent-key b', /cannot be used with option/],
  ['a policy without a parent', 'enqueue g#q x --on-failure fail', /go with --parent-pid or --parent-key/],
  ['a policy that there is not', 'enqueue g#q x --parent-pid a --on-failure ignore', /Allowed choices are fail/],
  ['a start within no time', 'enqueue g#q x --start-within 0ms', /'0ms' is less than 1ms/],
  ['two starts', 'enqueue g#q x --start-within 1m --start-by 2100-01-01T00:00:00Z', /cannot be used with option/],
  ['a queue in a group of a group', 'enqueue a#b#c x', /'a#b#c' has more than one #/],
  ['its dead-letter queue', 'enqueue a#b x --dead-letter-queue a#b#c', /'a#b#c' has more than one #/],
  ['its next queue', 'complete a#b x --force --enqueue a#b#c=x', /'a#b#c' has more than one #/],
  ['the queue of a schedule there', 'schedule put a#s a#b#c x --every 1h', /'a#b#c' has more than one #/],
  ['a topic there', 'topic publish a#b#c x', /'a#b#c' has more than one #/],
  ['a lease of no tasks', 'lease g#q --max 0', /'0' is not a whole number from 1/],
  ['less than no starts', 'lease g#q --starts -1', /'-1' is not a whole number from 0/],
  ['a begin of no tasks', 'renew g#q a --force --begun 0', /'0' is not a whole number from 1 to 10000/],
  ['results of no time', 'complete g#q a --force --result x --result-retention 0ms', /'0ms' is less than 1ms/],
  ['events of all groups', 'events *#*', /a pattern chooses queues of one group/],
  ['events of a kind that there is not', 'events g#* --kind done', /'done' is none of missed, enqueued/],
  ['events of two tasks', 'events g#* --pid a --key b', /cannot be used with option/],
  ['a bulk run of all groups', 'bulk delete *#* --yes', /a pattern chooses queues of one group/],
  ['a bulk run at no rate', 'bulk delete g#* --yes --rate 0', /'0' is not a whole number from 1 to/],
  ['a bulk run of less than no tasks', 'bulk delete g#* --yes --max-tasks -1', /'-1' is not a whole number from 1/],
  ['a bulk run of tasks of no age', 'bulk delete g#* --yes --newer-than 0ms', /'0ms' is less than 1ms/],
  ['a bulk run that hides for no time', 'bulk reschedule g#* --yes --delay 0ms', /'0ms' is less than 1ms/],
  ['a bulk run of a state that there is not', 'bulk delete g#* --yes --state done', /Allowed choices are available/],
  ['a subscription for no time', 'topic subscribe g#t g#q --ttl 0ms', /'0ms' is less than 1ms/],
])('%s is refused as wrong use: taskmaster %s', async (_what, line, message) => {
  const { code, stdout, stderr } = await runCli(NOWHERE, line.split(' '));
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^taskmaster: USAGE: /);
  expect(stderr).toMatch(message);
});
