import { escapeControls, parseQueueName } from '@taskmaster/proto';
import { type Html, html } from './html.ts';

/** Longer groups and names are cut; a tooltip shows the full name. */
const NAME_CHARACTERS = 96;

/** The cell of a table with the full name of a queue or a schedule. `note`: stands below the name. */
export function nameCell(fullName: string, note?: Html): Html {
  const title = fullName.length > NAME_CHARACTERS ? html` title="${escapeControls(fullName)}"` : undefined;
  return html`<td${title}><bdi>${shownName(fullName)}</bdi>${note}</td>`;
}

/** A full name whose group is less prominent. */
export function shownName(fullName: string): Html {
  const { group, name } = parseQueueName(fullName);
  const prefix = group === '' ? undefined : html`<span class="group">${shortened(escapeControls(group))}#</span>`;
  return html`${prefix}${shortened(escapeControls(name))}`;
}

/** A text of a user, without control characters, and cut if it is long. */
export const shownText = (text: string): string => shortened(escapeControls(text));

function shortened(text: string): string {
  return text.length > NAME_CHARACTERS ? `${text.slice(0, NAME_CHARACTERS)}…`.toWellFormed() : text;
}
