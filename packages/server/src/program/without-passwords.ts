/** A text with the passwords of its URLs left out. */
export const withoutPasswords = (text: string): string =>
  text.replace(/([a-z]+:\/\/[^:@/?#\s"']*):[^@/?#\s"']*@/g, '$1:***@').replace(/([?&]password=)[^&\s"']*/g, '$1***');
