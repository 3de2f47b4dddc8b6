/** Key of the method that says what `console.log` and `util.inspect` show in place of an object. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/**
 * What to show of an object: the name of its class and these fields, without those that are undefined. The parts of the client,
 * which a task holds, would fill the screen.
 */
export function shownAs(name: string, fields: object): object {
  const Shown = { [name]: class {} }[name] ?? Object;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.assign(new Shown(), Object.fromEntries(given));
}
