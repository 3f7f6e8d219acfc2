/**
 * Records in the database which process commits what, and finds commits that must not exist. Triggers write one event
 * for each change of a lease and for each write into a list, in the same transaction. An event has the port of its
 * connection, so the evidence does not depend on what the worker reports about itself.
 */
import type { Client } from "pg"
import type { LinkConnection } from "../harness/Link.ts"

/** Events of one lease are in the order of their commits, because each transaction locks its row. */
export interface AuditEvent {
  readonly seq: number
  /** Milliseconds since the epoch, by the server's clock. */
  readonly at: number
  readonly tx: string
  readonly port: number
  /** The schema, which has the name of the source. */
  readonly source: string
  /** `write` is a write into a table of the list; the others are changes of its lease. */
  readonly kind: "acquire" | "release" | "commit" | "renew" | "write"
  readonly label: string
  readonly epoch: number
}

const prepare = [
  "CREATE SCHEMA audit",
  `CREATE TABLE audit.events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tx text NOT NULL DEFAULT txid_current()::text, port integer DEFAULT inet_client_port(), source text NOT NULL,
    kind text NOT NULL, label text NOT NULL, epoch bigint NOT NULL DEFAULT 0
  )`,
  "CREATE INDEX ON audit.events (at)",
  `CREATE FUNCTION audit.on_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.events (source, kind, label, epoch) VALUES (TG_TABLE_SCHEMA, CASE
      WHEN NEW.expires = '-infinity' THEN 'release'
      WHEN TG_OP = 'INSERT' OR NEW.epoch <> OLD.epoch OR NEW.owner <> OLD.owner THEN 'acquire'
      WHEN NEW.commit <> OLD.commit THEN 'commit' ELSE 'renew' END, NEW.label, NEW.epoch);
    RETURN NULL;
  END $$`,
  `CREATE FUNCTION audit.on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.events (source, kind, label) VALUES (TG_TABLE_SCHEMA, 'write', NEW.list);
    RETURN NULL;
  END $$`,
  `CREATE FUNCTION audit.on_list() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.events (source, kind, label) VALUES (TG_TABLE_SCHEMA, 'write', TG_ARGV[0]);
    RETURN NULL;
  END $$`
]

/** Starts the audit of these sources. Their tables must exist. */
export const startAudit = async (
  client: Client,
  sources: ReadonlyArray<string>,
  lists: ReadonlyArray<{ readonly label: string; readonly table: string }>
): Promise<void> => {
  const triggers = sources.flatMap((source) => [
    `CREATE TRIGGER audit AFTER INSERT OR UPDATE ON ${source}.leases FOR EACH ROW EXECUTE FUNCTION audit.on_lease()`,
    ...["scans", "changes"].map((table) =>
      `CREATE TRIGGER audit AFTER INSERT OR UPDATE ON ${source}.${table} FOR EACH ROW EXECUTE FUNCTION audit.on_row()`
    ),
    ...lists.map(({ label, table }) =>
      `CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON ${source}.${table}
      FOR EACH STATEMENT EXECUTE FUNCTION audit.on_list('${label}')`
    )
  ])
  await client.query([...prepare, ...triggers].join(";\n"))
}

export const readAudit = async (client: Client): Promise<ReadonlyArray<AuditEvent>> => {
  const { rows } = await client.query<
    Omit<AuditEvent, "seq" | "at" | "epoch"> & Record<"seq" | "at" | "epoch", string>
  >(
    `SELECT seq, extract(epoch FROM at) * 1000 AS at, tx, port, source, kind, label, epoch FROM audit.events ORDER BY seq`
  )
  return rows.map((row) => ({ ...row, seq: Number(row.seq), at: Number(row.at), epoch: Number(row.epoch) }))
}

/** Returns a function that names the process behind a port at a time. The system may assign a port again later. */
export const instancesOf = (connections: ReadonlyArray<LinkConnection>) => {
  const byPort = Map.groupBy(connections.toSorted((a, b) => a.since - b.since), ({ port }) => port)
  return ({ at, port }: Pick<AuditEvent, "at" | "port">): string =>
    byPort.get(port)?.findLast(({ since }) => since <= at + 1)?.instance ?? `unknown (port ${port})`
}

/**
 * Finds commits that must not exist. The process of a commit must be the last one that acquired the lease. The epoch
 * must not be lower than an earlier one. A write must be within a commit of the lease.
 */
export const staleCommits = (
  events: ReadonlyArray<AuditEvent>,
  instanceOf: (event: AuditEvent) => string
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const owners = new Map<string, { epoch: number; instance: string | undefined }>()
  const keyOf = ({ label, source, tx }: AuditEvent) => `${source} ${label} ${tx}`
  const commits = new Set(events.filter(({ kind }) => kind === "commit").map(keyOf))
  for (const event of events) {
    const lease = `${event.source} ${event.label}`
    const instance = instanceOf(event)
    const problem = (text: string) =>
      problems.push(`event ${event.seq}: ${event.kind} of ${lease} by ${instance}: ${text}`)
    if (event.kind === "write") {
      if (!commits.has(keyOf(event))) problem("not in a commit of the lease")
      continue
    }
    const owner = owners.get(lease) ?? { epoch: 0, instance: undefined }
    if (event.epoch < owner.epoch) problem(`epoch ${event.epoch} after ${owner.epoch}`)
    if (event.kind === "acquire") {
      if (event.epoch <= owner.epoch) problem(`epoch ${event.epoch} was used before`)
      owners.set(lease, { epoch: event.epoch, instance })
    } else {
      // The audit starts after the first acquisition of each lease.
      if (owners.has(lease) && owner.instance !== instance) problem(`${owner.instance ?? "nobody"} has the lease`)
      if (event.kind !== "release" && owners.has(lease) && event.epoch !== owner.epoch) {
        problem(`epoch ${event.epoch}, acquired was ${owner.epoch}`)
      }
      if (event.kind === "release") owners.set(lease, { epoch: event.epoch, instance: undefined })
    }
  }
  return problems
}
