/**
 * Kinds of tasks, or patterns of them, for the protocol. A text alone is refused: taken for a list, it is one of its letters, and
 * no task has these kinds.
 * @throws TypeError
 */
export function kindPatterns(kinds: readonly string[] | undefined): { readonly patterns: string[] } | undefined {
  if (kinds === undefined) return undefined;
  if (Array.isArray(kinds) && kinds.length > 0) return { patterns: [...kinds] };
  throw new TypeError('kinds: must be a list of at least one kind');
}

/** The options of a call about tasks of one kind, unless they name kinds themselves. */
export function ofKind<Options extends { readonly kinds?: readonly string[] | undefined }>(
  kind: string | undefined,
  options: Options,
): Options {
  return kind === undefined || options.kinds !== undefined ? options : { ...options, kinds: [kind] };
}
