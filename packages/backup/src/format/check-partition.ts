import { type BackupEnd, type BackupHeader, type BackupPartitionResponse, DATA_FORMAT } from '@taskmaster/proto';
import { BackupError } from './errors.ts';
import { DAMAGE_HINT, tooNew } from './part.ts';

/** Checks that the messages of one partition come in order: a header, rows and atoms, an end. */
export class PartitionCheck {
  readonly #id: number;
  #header: BackupHeader | undefined;
  #end: BackupEnd | undefined;

  constructor(id: number) {
    this.#id = id;
  }

  /** Undefined until it has arrived. */
  get header(): BackupHeader | undefined {
    return this.#header;
  }

  /** Undefined until it has arrived. Then the partition is complete. */
  get end(): BackupEnd | undefined {
    return this.#end;
  }

  /** Header and end. Throws `BackupError` if one of them has not arrived. */
  whole(): { readonly header: BackupHeader; readonly end: BackupEnd } {
    if (this.#header && this.#end) return { header: this.#header, end: this.#end };
    throw this.#damaged('it ends early');
  }

  /** Throws `BackupError` if the message must not come here. */
  next({ part }: BackupPartitionResponse): void {
    if (part === undefined) throw this.#damaged('a message is of an unknown kind');
    if (this.#end !== undefined) throw this.#damaged('it goes on behind its end');
    if ((part.$case === 'header') !== (this.#header === undefined))
      throw this.#damaged('its header is not its beginning');
    if (part.$case === 'end') this.#end = part.value;
    if (part.$case !== 'header') return;
    const { partition, formatVersion } = part.value;
    if (partition !== this.#id) throw this.#damaged(`it is partition ${partition}`);
    if (formatVersion > DATA_FORMAT) throw tooNew(`partition ${partition} has rows of data format ${formatVersion}`);
    this.#header = part.value;
  }

  #damaged(why: string): BackupError {
    return new BackupError('BACKUP_DAMAGED', `partition ${this.#id} is damaged: ${why}`, { hint: DAMAGE_HINT });
  }
}
