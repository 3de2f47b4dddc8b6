/** The faults that a simulation counts. */
export const FAULTS = [
  ...(['power loss', 'kill', 'stop', 'crash in a hand-off', 'crash at a durable step', 'crash while leaving'] as const),
  ...([
    'pause',
    'pause in a turn',
    'clock set',
    'partition',
    'one-way partition',
    'lost hand-off message',
    'join',
    'drain',
    'drain taken back',
    'removal',
    'removal of two',
    'move',
  ] as const),
  ...(['failed write', 'failed fsync', 'full disk', 'restart after a failed disk'] as const),
  ...(['source lost in a transfer', 'stalled disk in an offer'] as const),
  ...(['full disk at a switch', 'release during a rebuild'] as const),
  ...([
    'cut from the database',
    'slow database',
    'hang',
    'fenced',
    'late statement',
    'late statement without answer',
  ] as const),
  ...(['put back from an old copy', 'old copy noticed'] as const),
];
export type Fault = (typeof FAULTS)[number];
