/** Who asks for a place. */
export interface Visitor {
  /** A principal, or a host. */
  readonly tenant: string;
  /** One of the connections of the tenant. */
  readonly connection: string;
}

export interface TurnstileOptions {
  /** Maximum of concurrent work. */
  readonly places: number;
  /** Maximum for one tenant. */
  readonly ofTenant: number;
  /** Maximum for one connection of a tenant. */
  readonly ofConnection: number;
}

/** For reads with large replies or long work, so that they neither fill the memory nor delay other calls. */
export const LARGE_LOOKS: TurnstileOptions = { places: 8, ofTenant: 4, ofConnection: 2 };

interface Line {
  running: number;
  readonly waiting: (() => void)[];
}

interface Tenant {
  running: number;
  /** In the order of their turns. */
  readonly lines: Map<string, Line>;
}

/**
 * Limits concurrent work that may take long.
 *
 *  T1  No tenant and no connection takes all places, so the others find some however slow its work is.
 *  T2  Tenants take turns, and so do the connections of a tenant. The work of one connection starts in the order in which it
 *      came.
 *  T3  Each turn of the event loop starts one piece of work. Otherwise all work that never waits would run in one turn and delay
 *      other calls.
 */
export class Turnstile {
  readonly #ofTenant: number;
  readonly #ofConnection: number;
  #room: number;
  /** Those with work, in the order of their turns. */
  readonly #tenants = new Map<string, Tenant>();
  /** The next turn of the event loop may start work. */
  #scheduled = false;

  constructor({ places, ofTenant, ofConnection }: TurnstileOptions) {
    this.#room = places;
    this.#ofTenant = ofTenant;
    this.#ofConnection = ofConnection;
  }

  async pass<T>(visitor: Visitor, work: () => Promise<T>): Promise<T> {
    const { tenant, line } = this.#placeOf(visitor);
    await new Promise<void>((resolve) => {
      line.waiting.push(resolve);
      // Work that comes alone starts at once.
      if (!this.#scheduled) this.#startNext();
    });
    try {
      return await work();
    } finally {
      setImmediate(() => this.#leave(visitor, tenant, line));
    }
  }

  #placeOf({ tenant: name, connection }: Visitor): { readonly tenant: Tenant; readonly line: Line } {
    const tenant = this.#tenants.get(name) ?? { running: 0, lines: new Map<string, Line>() };
    this.#tenants.set(name, tenant);
    const line = tenant.lines.get(connection) ?? { running: 0, waiting: [] };
    tenant.lines.set(connection, line);
    return { tenant, line };
  }

  #leave({ tenant: name, connection }: Visitor, tenant: Tenant, line: Line): void {
    this.#room++;
    tenant.running--;
    line.running--;
    if (line.running === 0 && line.waiting.length === 0) tenant.lines.delete(connection);
    if (tenant.lines.size === 0) this.#tenants.delete(name);
    if (!this.#scheduled) this.#startNext();
  }

  /** Starts the work whose turn it is (T1, T2). */
  #startNext(): void {
    if (this.#room === 0) return;
    for (const [name, tenant] of this.#tenants) {
      if (tenant.running >= this.#ofTenant) continue;
      for (const [connection, line] of tenant.lines) {
        const start = line.running < this.#ofConnection ? line.waiting.shift() : undefined;
        if (start === undefined) continue;
        this.#room--;
        tenant.running++;
        line.running++;
        // Their next turns come after those of all others.
        tenant.lines.delete(connection);
        tenant.lines.set(connection, line);
        this.#tenants.delete(name);
        this.#tenants.set(name, tenant);
        this.#scheduleNext();
        start();
        return;
      }
    }
  }

  #scheduleNext(): void {
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#startNext();
    });
  }
}
