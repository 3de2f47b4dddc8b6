/** A directory or file of this machine that a container sees at a path. */
export interface Mount {
  readonly from: string;
  readonly to: string;
  readonly isReadOnly: boolean;
}
