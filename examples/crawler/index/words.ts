const WORD = /[\p{L}\p{N}_$]+/gu;
/** Longer words are hashes or encoded data. In UTF-16 code units. */
const MAX_LENGTH = 40;

/** The words of a text, normalised. `camelCase` counts as itself and as its parts. */
export function* wordsOf(text: string): Generator<string> {
  for (const [word] of text.matchAll(WORD)) {
    if (word.length < 2 || word.length > MAX_LENGTH) continue;
    yield word.toLowerCase();
    const parts = word.split(/(?<=[a-z])(?=[A-Z])|_/);
    if (parts.length === 1) continue;
    for (const part of parts) if (part.length > 1) yield part.toLowerCase();
  }
}

export function countWords(text: string): Record<string, number> {
  const counts = new Map<string, number>();
  for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return Object.fromEntries(counts);
}
