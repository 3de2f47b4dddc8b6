/** Characters that JSON may contain as they are, but that a terminal obeys instead of showing them, or that end a line. */
const UNSEEN = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The same JSON with escapes instead of characters that cannot be seen: a change of direction in a name could otherwise show a
 * reader of a log something else than what it says.
 */
export function visibleJson(json: string): string {
  return json.replace(UNSEEN, (character) => {
    let escaped = '';
    for (let at = 0; at < character.length; at++) {
      escaped += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }
    return escaped;
  });
}
