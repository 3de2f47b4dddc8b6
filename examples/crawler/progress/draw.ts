import { stripVTControlCharacters, styleText } from 'node:util';
import type { ServerStatus } from '../cluster/servers.ts';
import type { CrawlStatus, StageStatus } from './observe.ts';

type Style = Parameters<typeof styleText>[0];
/** Adds colour to a text, if the output has colours. */
export type Paint = (style: Style, text: string) => string;

/** Adds colours if the stream is a terminal and NO_COLOR is not set. */
export function paintFor(stream: NodeJS.WriteStream): Paint {
  return (style, text) => styleText(style, text, { stream });
}

const BAR = 28;

/** The crawl as a block of lines for a terminal. */
export function drawBlock(status: CrawlStatus, paint: Paint): string[] {
  const { indexed, found, skipped, dead, silent, expected, elapsedMs, retried } = status;
  const done = expected === undefined ? `${count(indexed)} pages` : `${count(indexed)} of ${count(expected)} pages`;
  const lost = dead > 0 ? `, ${paint('red', `${dead} given up`)}` : '';
  const unheard = silent > 0 ? `, ${paint('yellow', `${silent} shards do not answer`)}` : '';
  return [
    '',
    `  ${bar(indexed / (expected ?? Math.max(1, found - skipped)), paint)}  ${paint('bold', done)} indexed  ${paint('dim', seconds(elapsedMs))}`,
    `  ${count(found)} links found, ${count(skipped)} lead nowhere, ${count(retried)} attempts repeated${lost}${unheard}`,
    '',
    paint(
      'dim',
      `  ${'stage'.padEnd(18)}${['waiting', 'leased', 'delayed', 'done', 'per second'].map(column).join('')}`,
    ),
    ...status.stages.map((stage) => stageLine(stage, paint)),
    '',
    ...serverLines(status.servers, paint),
    `  ${paint('dim', 'workers')}  ${status.workers.map(({ name, ready, counts }) => `${lamp(ready, paint)} ${name} ${paint('dim', count(counts.handled.index))}`).join('   ')}`,
    '',
  ];
}

/** The crawl in one line, for a log. */
export function drawLine({ elapsedMs, indexed, found, expected, stages, retried, servers }: CrawlStatus): string {
  const goal = expected === undefined ? '' : `/${expected}`;
  const queues = stages.map(({ stage, available, leased, delayed, perSecond }) => {
    return `${stage} ${available}+${leased}+${delayed} ${Math.round(perSecond)}/s`;
  });
  return `${seconds(elapsedMs)}  ${indexed}${goal} indexed, ${found} found  |  ${queues.join('  |  ')}  |  ${retried} retried  |  ${servers.map(serverText).join(', ')}`;
}

export function count(value: number): string {
  return value.toLocaleString('en');
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Cuts a line to the width of the terminal. A wrapped line would break the redrawing of the block. */
export function fit(line: string, columns: number): string {
  const plain = stripVTControlCharacters(line);
  return plain.length <= columns ? line : plain.slice(0, columns);
}

function stageLine({ stage, available, leased, delayed, completed, perSecond }: StageStatus, paint: Paint): string {
  const numbers = [available, leased, delayed, completed].map((value) => column(count(value)));
  return `  ${paint('cyan', stage.padEnd(18))}${numbers.join('')}${column(perSecond.toFixed(0))}`;
}

/** One line for each node of a cluster, with a mark for each partition, so that hand-offs are visible. */
function serverLines(servers: readonly ServerStatus[], paint: Paint): string[] {
  const members = servers.flatMap(({ name, up, isNew, member }) =>
    member === undefined ? [] : [{ name, up, isNew, ...member }],
  );
  const others = servers.filter(({ member }) => member === undefined);
  return [
    ...members.map(({ name, up, isNew, state, held, wanted }) => {
      const left = state === 'left';
      const note = left ? 'has left' : state === 'active' ? String(held) : `${held} ${state}`;
      const light = left || (isNew && !up) ? paint('dim', '○') : lamp(up, paint);
      return `  ${light} ${name.padEnd(8)} ${holdings(held, wanted, paint)}${paint('dim', note)}`;
    }),
    ...others.map(({ name, up }) => `  ${lamp(up, paint)} ${name}`),
    '',
  ];
}

/** Marks for the partitions that a node keeps, hands over, and receives. */
function holdings(held: number, wanted: number, paint: Paint): string {
  const marks = [
    paint('green', '■'.repeat(Math.min(held, wanted))),
    paint('yellow', '■'.repeat(Math.max(0, held - wanted))),
    paint('dim', '·'.repeat(Math.max(0, wanted - held))),
  ];
  return `${marks.join('')}${held + wanted > 0 ? ' ' : ''}`;
}

function serverText({ name, up, isNew, member }: ServerStatus): string {
  if (member?.state === 'left') return `${name} left`;
  const held = member === undefined ? '' : ` ${member.held}${member.held === member.wanted ? '' : `→${member.wanted}`}`;
  return `${name}${held}${up ? '' : isNew ? ' starting' : ' down'}`;
}

function column(text: string): string {
  return text.padStart(11);
}

function bar(share: number, paint: Paint): string {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR);
  return paint('green', '█'.repeat(filled)) + paint('dim', '░'.repeat(BAR - filled));
}

function lamp(on: boolean, paint: Paint): string {
  return on ? paint('green', '●') : paint('red', '○');
}
