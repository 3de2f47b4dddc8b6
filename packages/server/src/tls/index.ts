export { Tls } from './tls.ts';
export { hasTls, readTlsFiles, TlsFileError, type TlsSettings } from './tls-files.ts';
