import { escapeControls } from '@taskmaster/proto';

/** Writes an error of a program to standard error. Text of others, as of another member, cannot control the terminal. */
export function complain(
  program: string,
  text: string,
  stream: { write(text: string): unknown } = process.stderr,
): void {
  const lines = `${program}: ${text}`.split('\n').map(escapeControls);
  stream.write(`${lines.join('\n')}\n`);
}
