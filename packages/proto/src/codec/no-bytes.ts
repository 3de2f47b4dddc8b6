/** What a field of bytes holds that a message does not have. Nothing can be written to it, so all messages share it. */
export const NO_BYTES = new Uint8Array(0);
