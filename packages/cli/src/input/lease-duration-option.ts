import { InvalidArgumentError, Option } from 'commander';
import { lengthOfTime } from './arguments.ts';

/** `--lease-duration`. Without it the settings of the queue decide. */
export const leaseDurationOption = (what: string): Option =>
  new Option('--lease-duration <duration>', `${what} (default: that of the queue, or 30s)`).argParser((text) => {
    const ms = lengthOfTime(text);
    if (ms < 1) throw new InvalidArgumentError('A lease lasts at least 1ms.');
    return ms;
  });
