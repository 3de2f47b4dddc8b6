/** Characters that a terminal does not show as they are: control characters, line separators, changes of direction. */
const CONTROL = /[\p{C}\p{Zl}\p{Zp}]/gu;

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The text with control characters as escapes, so that text of other users cannot control a terminal or deceive its reader. */
export function escapeControls(text: string): string {
  return text.replace(CONTROL, (char) => escapes[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
}
