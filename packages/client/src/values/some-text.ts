/**
 * An optional text, for the protocol, in which the empty one says that none is given. So an empty text of a caller would be taken
 * for none: a filter that lets all tasks in, or a task without its order.
 * @throws TypeError
 */
export function someText(name: string, text: string | undefined): string {
  if (text === undefined) return '';
  if (typeof text === 'string' && text !== '') return text;
  throw new TypeError(`${name}: ${JSON.stringify(text)} is no text of at least 1 byte`);
}
