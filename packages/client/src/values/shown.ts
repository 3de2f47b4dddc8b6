/** Key of the method that says what `console.log` and `util.inspect` show in place of an object. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/**
 * What to show of an object: the name of its class and these fields, without those that are undefined. So nobody has to look for
 * a task among the parts of the client.
 */
export function shownAs(name: string, fields: object): object {
  const Shown = { [name]: class {} }[name] ?? Object;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.assign(new Shown(), Object.fromEntries(given));
}
