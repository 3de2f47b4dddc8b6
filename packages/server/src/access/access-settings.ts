/** Settings of access. Empty texts: not set. */
export interface AccessSettings {
  readonly file: string;
  readonly jwt: {
    readonly keyFile: string;
    readonly jwksFile: string;
    readonly issuer: string;
    readonly audience: string;
  };
}

/** Whether rules are configured: then everything that they do not allow is denied. */
export function hasAccessRules({ file, jwt }: AccessSettings): boolean {
  return file !== '' || jwt.keyFile !== '' || jwt.jwksFile !== '';
}
