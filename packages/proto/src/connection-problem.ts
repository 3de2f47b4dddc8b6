/** Why gRPC has no connection, from the details of a failed call. gRPC may add an empty note, and may not know the reason. */
export function connectionProblem(details: string): string {
  return details.replace(/\.? Resolution note: *$/, '').replace(UNKNOWN, 'gRPC does not say why');
}

/** Whether gRPC does not know why it has no connection. */
export const isUnknownProblem = (details: string): boolean => UNKNOWN.test(details);

const UNKNOWN = /Last error: (?:undefined|null)?(?=$|\. )/;
