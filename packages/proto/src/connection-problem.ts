/** What gRPC says before the reason for which it has no connection. */
const BEFORE = /^(?:round_robin: )?No connection established\. Last error: (?:Error: )?/;
const NO_REASON = /^(?:undefined|null)?(?=$|\. Resolution note: )/;

/** Why gRPC has no connection, from the details of a failed call. Other details stay as they are. */
export function connectionProblem(details: string): string {
  const problem = withoutNote(details);
  if (!BEFORE.test(problem)) return problem;
  const reason = problem.replace(BEFORE, '');
  return NO_REASON.test(reason) ? 'there is no connection, and gRPC does not say why' : reason;
}

/** Whether gRPC does not know why it has no connection. */
export function isUnknownProblem(details: string): boolean {
  const problem = withoutNote(details);
  return BEFORE.test(problem) && NO_REASON.test(problem.replace(BEFORE, ''));
}

/** gRPC may add an empty note. */
const withoutNote = (details: string): string => details.replace(/\.? Resolution note: *$/, '');
