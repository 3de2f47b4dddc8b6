import { Help } from 'commander';

/** Longest line of help texts, also without a terminal. */
const WIDTH = 100;

/** Width of help texts on a stream. */
export function helpWidth({ columns }: { readonly columns?: number }): number {
  return Math.min(columns || WIDTH, WIDTH);
}

/**
 * Text below the help of a command, for commander's `addHelpText`. Paragraphs are wrapped. A paragraph that begins with a
 * title and a colon (`Examples:`) keeps its lines.
 */
export function notesOf(text: string): () => string {
  return () => {
    const help = new Help();
    const paragraphs = text.trim().split('\n\n');
    const wrapped = paragraphs.map((paragraph) =>
      /^\w[\w ]*:\n/.test(paragraph) ? paragraph : help.boxWrap(unbroken(paragraph), helpWidth(process.stdout)),
    );
    return `\n${wrapped.join('\n\n')}`;
  };
}

/** The paragraph as one line. */
function unbroken(paragraph: string): string {
  return paragraph.replaceAll('\n', ' ');
}
