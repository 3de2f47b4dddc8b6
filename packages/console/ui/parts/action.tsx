import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { tryNow } from '../data/poll.ts';
import { type CallError, callError } from '../data/rpc.ts';
import { meStore } from '../data/session.ts';
import { useStore } from '../data/store.ts';
import { isAllowed } from '../show/rights.ts';
import { visible } from './text.tsx';
import { toast } from './toasts.tsx';

/** A dialog. The browser keeps the focus in it, closes it with Esc, and gives the focus back. */
export function Dialog(props: {
  readonly title: string;
  readonly onClose: () => void;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}): VNode {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} class={props.wide ? 'wide' : ''} aria-labelledby={id} onClose={props.onClose}>
      <h2 id={id}>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** A refusal, as text that tells what to do. */
export function refusalText({ reason, message, metadata, itemReasons }: CallError): string {
  if (reason === 'PERMISSION_DENIED') {
    const { principal, right, group } = metadata;
    const where = group === undefined ? '' : group === '' ? ' on the default group' : ` on the group ${visible(group)}`;
    if (principal !== undefined && right !== undefined) {
      return `${visible(principal)} has no right ${right}${where}. Ask an operator for it.`;
    }
  }
  if (reason === 'UNAUTHENTICATED') return 'The token is not valid, or not valid any more. Log in again.';
  const items = itemReasons.length === 0 ? '' : ` (${[...new Set(itemReasons)].join(', ')})`;
  return `${sentence(visible(message))}${items} [${reason}].`;
}

/** With a capital letter, unless it begins with a name. */
const sentence = (text: string): string =>
  text.replace(/^(?:the|an?|no|not) /, (word) => word[0]?.toUpperCase() + word.slice(1));

export interface ActionProps {
  /** The text of the button. */
  readonly label: string;
  /** What it takes, and on which group; without a group it is about the cluster. */
  readonly right: string;
  readonly group?: string;
  /** The title of the dialog. It names what will happen to what. */
  readonly title: string;
  /** What will happen. `ready`: says whether it may be confirmed. */
  readonly children?: ComponentChildren;
  /** The text of the button that does it. */
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isReady?: boolean;
  /** Why it cannot be done now. Undefined: it can. */
  readonly impossible?: string | undefined;
  readonly wide?: boolean;
  readonly primary?: boolean;
  /** Called when the dialog opens. */
  readonly onOpen?: () => void;
  /** Does it. Resolves with what has happened, as text. */
  readonly run: () => Promise<string>;
}

/** A button that opens a dialog, which says what will happen. Disabled, with the reason, if the user lacks the right. */
export function Action(props: ActionProps): VNode {
  const me = useStore(meStore);
  const [isOpen, setOpen] = useState(false);
  const reasonId = useId();
  const lacking = isAllowed(me, props.right, props.group)
    ? undefined
    : `This takes the right ${props.right}${props.group === undefined ? '' : ` on ${groupText(props.group)}`}, which ${me?.principal ? `${visible(me.principal)} does` : 'you do'} not have.`;
  const why = lacking ?? props.impossible;
  return (
    <span class="action">
      <button
        type="button"
        class={props.isDangerous ? 'danger' : props.primary ? 'primary' : ''}
        aria-disabled={why !== undefined}
        aria-describedby={why === undefined ? undefined : reasonId}
        title={why}
        onClick={() => {
          if (why !== undefined) {
            toast(why, true);
            return;
          }
          props.onOpen?.();
          setOpen(true);
        }}
      >
        {props.label}
      </button>
      {why === undefined ? undefined : (
        <span class="hidden" id={reasonId}>
          {why}
        </span>
      )}
      {isOpen ? <Confirmation {...props} onClose={() => setOpen(false)} /> : undefined}
    </span>
  );
}

const groupText = (group: string): string => (group === '' ? 'the default group' : `the group ${visible(group)}`);

function Confirmation(props: ActionProps & { readonly onClose: () => void }): VNode {
  const [state, setState] = useState<'asking' | 'running' | CallError>('asking');
  const isRunning = state === 'running';
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (isRunning || props.isReady === false) return;
    setState('running');
    try {
      toast(await props.run());
      props.onClose();
      tryNow();
    } catch (thrown) {
      setState(callError(thrown));
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.wide ?? false}>
      <form onSubmit={submit}>
        {props.children}
        {typeof state === 'object' ? (
          <p class="refused" role="alert">
            <strong>Refused.</strong> {refusalText(state)}
          </p>
        ) : undefined}
        <div class="buttons">
          <button type="button" onClick={props.onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={props.isDangerous ? 'danger filled' : 'primary'}
            disabled={isRunning || props.isReady === false}
          >
            {isRunning ? 'Working…' : props.confirm}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
