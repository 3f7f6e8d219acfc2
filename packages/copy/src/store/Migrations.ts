/**
 * The tables of a destination except those of the lists, as an ordered list of migrations with one version number for both
 * databases. A new destination runs all migrations, and an older one those that it lacks, in one transaction. Never change a
 * released entry: add another entry for a later change of the tables.
 */

/** The version of this program, recorded in the destinations that it changes. A test compares it with `package.json`. */
export const programVersion = "0.1.0"

/** The statements that change the tables of the previous version into those of this version. */
export interface Migration {
  readonly version: number
  readonly sqlite: ReadonlyArray<string>
  /** Returns the statements for a schema, whose name is quoted. */
  readonly postgres: (schema: string) => ReadonlyArray<string>
  /** Returns the statements, the same in both databases, for the table of each list. They run after the others. */
  readonly eachList?: (table: string) => ReadonlyArray<string>
}

/** The oldest version of SQLite files that can be migrated. */
export const oldestSqliteVersion = 2

const customerColumns = "customer_details_reference customer_details_name customer_details_document_type " +
  "customer_details_document_number customer_details_email customer_details_phone_number"

/** The columns of the lists' tables in versions 1 to 3, which did not record them. A user may have added other columns. */
const columnsBefore4: { readonly [table: string]: { readonly [kind: string]: string } } = {
  payout_requests: {
    integer: "amount amount_sent fee",
    text: `id reference customer_id ${customerColumns} payout_target_id payout_target_details_reference ` +
      "payout_target_details_description payout_target_details_type status status_message source_merchant_account_id " +
      "created_at updated_at"
  },
  payin_sources: {
    boolean: "partial_payins_enabled",
    text: `id reference description customer_id ${customerColumns} status status_message auth_url redirect_url type ` +
      "created_at updated_at"
  },
  invoices: {
    integer: "amount payment_amount",
    text: "id reference status description contract customer_document_number created_at payment_date payment_method " +
      "payment_source settlement_date settlement_time payment_id payment_url"
  }
}

/** Returns the names of the columns that a list's table had before version 4; none if it had no table. */
export const columnNamesBefore4 = (table: string): ReadonlyArray<string> =>
  Object.values(columnsBefore4[table] ?? {}).flatMap((names) => names.split(" "))

/** The tables, names and kinds of these columns as rows. Both databases name the columns of VALUES `column1`, `column2`, …. */
const known = `(VALUES ${
  Object.entries(columnsBefore4).flatMap(([table, kinds]) =>
    Object.entries(kinds).flatMap(([kind, names]) =>
      names.split(" ").map((name) => `('${table}', '${name}', '${kind}')`)
    )
  ).join(", ")
}) AS known`

/** In the order of their versions. */
export const migrations: ReadonlyArray<Migration> = [
  {
    version: 1,
    sqlite: [],
    postgres: (schema) => [
      `CREATE TABLE ${schema}.destination (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton), version integer NOT NULL, source text,
        -- The number of the last change. A transaction that takes the next numbers locks the row until it commits.
        changes bigint NOT NULL DEFAULT 0
      )`,
      `INSERT INTO ${schema}.destination (version) VALUES (1)`,
      `CREATE TABLE ${schema}.leases (
        label text PRIMARY KEY, epoch bigint NOT NULL, commit bigint NOT NULL, owner text NOT NULL, holder text NOT NULL,
        expires timestamptz NOT NULL
      )`,
      `CREATE TABLE ${schema}.scans (
        scan bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, list text NOT NULL, part text NOT NULL, asked text NOT NULL,
        state text NOT NULL CHECK (state IN ('running', 'complete', 'incomplete', 'abandoned')), checkpoint text,
        first_row bigint NOT NULL, pages bigint NOT NULL DEFAULT 0, records bigint NOT NULL DEFAULT 0,
        tally json NOT NULL, certificate json, started_at timestamptz NOT NULL, ended_at timestamptz
      )`,
      `CREATE UNIQUE INDEX one_running_scan ON ${schema}.scans (list, part) WHERE state = 'running'`,
      `CREATE INDEX scans_of_a_part ON ${schema}.scans (list, part, state, scan)`,
      `CREATE TABLE ${schema}.seen (
        scan bigint NOT NULL, piece bigint NOT NULL, bits bytea NOT NULL, PRIMARY KEY (scan, piece)
      )`,
      `CREATE TABLE ${schema}.quarantine (
        scan bigint NOT NULL, list text NOT NULL, id text, path text NOT NULL, expected text NOT NULL, raw json NOT NULL
      )`,
      `CREATE INDEX quarantine_of_a_scan ON ${schema}.quarantine (scan)`,
      `CREATE TABLE ${schema}.changes (
        seq bigint PRIMARY KEY, list text NOT NULL, scan bigint NOT NULL, at timestamptz NOT NULL,
        kind text NOT NULL CHECK (kind IN ('insert', 'update', 'missing', 'returned')),
        id text COLLATE "C" NOT NULL, fields json NOT NULL, before json, after json
      )`,
      `CREATE INDEX changes_of_a_record ON ${schema}.changes (list, id, seq)`
    ]
  },
  {
    version: 2,
    sqlite: [
      "CREATE TABLE destination (only INTEGER PRIMARY KEY CHECK (only = 1), source TEXT NOT NULL) STRICT",
      "CREATE TABLE holders (label TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT",
      `CREATE TABLE scans (
        scan INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, part TEXT NOT NULL, asked TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete', 'abandoned')),
        checkpoint TEXT, first_row INTEGER NOT NULL, pages INTEGER NOT NULL DEFAULT 0,
        records INTEGER NOT NULL DEFAULT 0, tally TEXT NOT NULL, certificate TEXT, started_at TEXT NOT NULL, ended_at TEXT
      ) STRICT`,
      "CREATE UNIQUE INDEX one_running_scan ON scans (list, part) WHERE state = 'running'",
      "CREATE INDEX scans_of_a_part ON scans (list, part, state, scan)",
      `CREATE TABLE seen (
        scan INTEGER NOT NULL, piece INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (scan, piece)
      ) STRICT`,
      `CREATE TABLE quarantine (
        scan INTEGER NOT NULL, list TEXT NOT NULL, id TEXT, path TEXT NOT NULL, expected TEXT NOT NULL, raw TEXT NOT NULL
      ) STRICT`,
      "CREATE INDEX quarantine_of_a_scan ON quarantine (scan)",
      `CREATE TABLE changes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, scan INTEGER NOT NULL, at TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('insert', 'update', 'missing', 'returned')),
        id TEXT NOT NULL, fields TEXT NOT NULL, before TEXT, after TEXT
      ) STRICT`,
      "CREATE INDEX changes_of_a_record ON changes (list, id, seq)",
      // The revision increases with every commit that changes a row of the list.
      "CREATE TABLE revisions (list TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT",
      // The rendered files of a folder. A file without a digest is incomplete.
      `CREATE TABLE rendered (
        file TEXT PRIMARY KEY, list TEXT NOT NULL, rendering INTEGER NOT NULL, scan INTEGER NOT NULL, revision INTEGER,
        records INTEGER, bytes INTEGER, sha256 TEXT
      ) STRICT`,
      // The text of the manifest and of the previous manifest.
      "CREATE TABLE manifest (only INTEGER PRIMARY KEY CHECK (only = 1), text TEXT NOT NULL, previous TEXT) STRICT"
    ],
    postgres: (schema) => [
      // The type json rejects some quarantined texts.
      `ALTER TABLE ${schema}.quarantine ALTER COLUMN raw TYPE text`,
      `CREATE TABLE IF NOT EXISTS ${schema}.known_keys (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, salt text NOT NULL, fingerprint text NOT NULL,
        UNIQUE (salt, fingerprint)
      )`,
      `CREATE TABLE IF NOT EXISTS ${schema}.known_merchants (merchant text COLLATE "C" PRIMARY KEY)`
    ]
  },
  {
    version: 3,
    sqlite: [
      // A program of version 2 replaces the row when it takes a list over, which sets the epoch back to 0.
      "ALTER TABLE holders ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0",
      // The owner of the data: fingerprints of the keys that read it, and the merchant ids in its records.
      `CREATE TABLE known_keys (
        number INTEGER PRIMARY KEY, salt TEXT NOT NULL, fingerprint TEXT NOT NULL, UNIQUE (salt, fingerprint)
      ) STRICT`,
      "CREATE TABLE known_merchants (merchant TEXT PRIMARY KEY) STRICT"
    ],
    postgres: () => []
  },
  {
    version: 4,
    sqlite: [
      // Rows from the number `unfilled_from` on lack the value of the column. NULL: every row has it.
      `CREATE TABLE list_columns (
        list TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, unfilled_from INTEGER, PRIMARY KEY (list, name)
      ) STRICT`,
      `INSERT INTO list_columns (list, name, kind)
        SELECT replace(t.name, '_', '-'), c.name, known.column3 FROM sqlite_schema AS t
        JOIN pragma_table_info(t.name) AS c JOIN ${known} ON known.column1 = t.name AND known.column2 = c.name
        WHERE t.type = 'table'`,
      // The version of the last program that has changed the tables.
      "CREATE TABLE program_version (version TEXT NOT NULL) STRICT",
      // Version 1 recorded no seen rows, so its scans are no evidence that a row is missing.
      "UPDATE scans SET state = 'abandoned' WHERE state IN ('running', 'complete') AND tally ->> '$.blind'"
    ],
    postgres: (schema) => [
      `CREATE TABLE ${schema}.list_columns (
        list text NOT NULL, name text NOT NULL, kind text NOT NULL, unfilled_from bigint, PRIMARY KEY (list, name)
      )`,
      `INSERT INTO ${schema}.list_columns (list, name, kind)
        SELECT replace(c.relname, '_', '-'), a.attname, known.column3
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        JOIN ${known} ON known.column1 = c.relname AND known.column2 = a.attname
        WHERE c.relnamespace = to_regnamespace('${
        schema.replaceAll("'", "''")
      }') AND a.attnum > 0 AND NOT a.attisdropped`,
      `CREATE TABLE ${schema}.program_version (version text NOT NULL)`
    ]
  },
  {
    version: 5,
    sqlite: [
      "ALTER TABLE scans ADD COLUMN kind TEXT NOT NULL DEFAULT 'full' CHECK (kind IN ('full', 'part', 'head', 'window'))",
      "UPDATE scans SET kind = 'part' WHERE part <> ''",
      // The number of the last row of `changes` when the scan became complete, or when the pass last wrote.
      "ALTER TABLE scans ADD COLUMN last_change INTEGER",
      // Passes are many, and most queries ignore them.
      "DROP INDEX IF EXISTS scans_of_a_part",
      "CREATE INDEX scans_of_a_part ON scans (list, part, state, scan) WHERE kind IN ('full', 'part')",
      "CREATE INDEX passes_of_a_list ON scans (list, last_change) WHERE kind IN ('head', 'window')",
      // The position is the number of the last change that the consumer has acknowledged.
      `CREATE TABLE consumers (
        name TEXT PRIMARY KEY, position INTEGER NOT NULL, created_at TEXT NOT NULL, moved_at TEXT NOT NULL
      ) STRICT`,
      // The highest number of a removed change. There is no row until the first removal.
      `CREATE TABLE changes_pruned (
        only INTEGER PRIMARY KEY CHECK (only = 1), seq INTEGER NOT NULL, pruned_at TEXT NOT NULL
      ) STRICT`,
      // The lists whose head passes are stopped, and why.
      "CREATE TABLE head_passes (list TEXT PRIMARY KEY, stopped_at TEXT NOT NULL, problem TEXT NOT NULL) STRICT",
      // The number of changes by list, UTC day and kind. Removed changes still count. Earlier versions did not count, so only
      // the last million changes are counted here: they are read once, in one transaction.
      `CREATE TABLE change_counts (
        list TEXT NOT NULL, day TEXT NOT NULL, kind TEXT NOT NULL, changes INTEGER NOT NULL, PRIMARY KEY (list, day, kind)
      ) STRICT`,
      `INSERT INTO change_counts SELECT list, substr(at, 1, 10), kind, count(*) FROM changes
        WHERE seq > (SELECT max(seq) - 1000000 FROM changes) GROUP BY 1, 2, 3`
    ],
    postgres: (schema) => [
      `ALTER TABLE ${schema}.scans ADD COLUMN kind text NOT NULL DEFAULT 'full'
        CHECK (kind IN ('full', 'part', 'head', 'window')), ADD COLUMN last_change bigint`,
      `UPDATE ${schema}.scans SET kind = 'part' WHERE part <> ''`,
      `DROP INDEX IF EXISTS ${schema}.scans_of_a_part`,
      `CREATE INDEX scans_of_a_part ON ${schema}.scans (list, part, state, scan) WHERE kind IN ('full', 'part')`,
      `CREATE INDEX passes_of_a_list ON ${schema}.scans (list, last_change) WHERE kind IN ('head', 'window')`,
      `CREATE TABLE ${schema}.consumers (
        name text COLLATE "C" PRIMARY KEY, position bigint NOT NULL, created_at timestamptz NOT NULL,
        moved_at timestamptz NOT NULL
      )`,
      `CREATE TABLE ${schema}.changes_pruned (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton), seq bigint NOT NULL, pruned_at timestamptz NOT NULL
      )`,
      `CREATE TABLE ${schema}.head_passes (list text PRIMARY KEY, stopped_at timestamptz NOT NULL, problem text NOT NULL)`,
      `CREATE TABLE ${schema}.change_counts (
        list text NOT NULL, day date NOT NULL, kind text NOT NULL, changes bigint NOT NULL, PRIMARY KEY (list, day, kind)
      )`,
      `INSERT INTO ${schema}.change_counts SELECT list, (at AT TIME ZONE 'UTC')::date, kind, count(*) FROM ${schema}.changes
        WHERE seq > (SELECT max(seq) - 1000000 FROM ${schema}.changes) GROUP BY 1, 2, 3`
    ]
  },
  {
    version: 6,
    sqlite: [
      // The rule for personal data; NULL: every field is kept. `rewriting` is the state of an unfinished rewrite as JSON.
      // Every transaction that erases or rewrites increments the edition. The row always exists, so that commits can lock it.
      `CREATE TABLE personal (
        only INTEGER PRIMARY KEY CHECK (only = 1), rule TEXT, rewriting TEXT, edition INTEGER NOT NULL DEFAULT 0,
        key_check TEXT
      ) STRICT`,
      "INSERT INTO personal (only) VALUES (1)",
      // Keyed hashes of erased persons and records.
      "CREATE TABLE suppressed (hash TEXT PRIMARY KEY, erasure INTEGER NOT NULL) STRICT",
      `CREATE TABLE erasures (
        erasure INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL, kind TEXT NOT NULL, by TEXT NOT NULL,
        started_at TEXT NOT NULL, completed_at TEXT, records INTEGER NOT NULL DEFAULT 0,
        changes INTEGER NOT NULL DEFAULT 0, quarantined INTEGER NOT NULL DEFAULT 0
      ) STRICT`,
      // The edition of the rows from which the file was rendered.
      "ALTER TABLE rendered ADD COLUMN edition INTEGER NOT NULL DEFAULT 0",
      // The rows of a list that were removed because they had been missing for long. `removed`: their number. `seq`:
      // the highest number of a change that recorded one of them as missing. `last_change`: the last change when rows
      // were last removed.
      `CREATE TABLE rows_pruned (
        list TEXT PRIMARY KEY, removed INTEGER NOT NULL, seq INTEGER NOT NULL, last_change INTEGER NOT NULL,
        pruned_at TEXT NOT NULL
      ) STRICT`
    ],
    postgres: (schema) => [
      `CREATE TABLE ${schema}.personal (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton), rule text, rewriting text,
        edition bigint NOT NULL DEFAULT 0, key_check text
      )`,
      `INSERT INTO ${schema}.personal DEFAULT VALUES`,
      `CREATE TABLE ${schema}.suppressed (hash text COLLATE "C" PRIMARY KEY, erasure bigint NOT NULL)`,
      `CREATE TABLE ${schema}.erasures (
        erasure bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, hash text NOT NULL, kind text NOT NULL, by text NOT NULL,
        started_at timestamptz NOT NULL, completed_at timestamptz, records bigint NOT NULL DEFAULT 0,
        changes bigint NOT NULL DEFAULT 0, quarantined bigint NOT NULL DEFAULT 0
      )`,
      `CREATE TABLE ${schema}.rows_pruned (
        list text PRIMARY KEY, removed bigint NOT NULL, seq bigint NOT NULL, last_change bigint NOT NULL,
        pruned_at timestamptz NOT NULL
      )`
    ]
  },
  {
    version: 7,
    sqlite: [
      // The generations in their order. The numbers of changes up to `began_after` have the same facts as in the generation
      // before. The name is random: two restored copies of one backup must not give theirs the same name. `origin` is only
      // known in PostgreSQL.
      `CREATE TABLE generations (
        number INTEGER PRIMARY KEY, generation TEXT NOT NULL UNIQUE, began_after INTEGER NOT NULL, began_at TEXT NOT NULL,
        reason TEXT NOT NULL, origin TEXT
      ) STRICT`,
      `INSERT INTO generations (generation, began_after, began_at, reason)
        VALUES (lower(hex(randomblob(6))), 0, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 'first')`,
      // NULL: the first generation.
      "ALTER TABLE changes ADD COLUMN generation TEXT",
      "ALTER TABLE consumers ADD COLUMN generation TEXT",
      "UPDATE consumers SET generation = (SELECT generation FROM generations)"
    ],
    postgres: (schema) => [
      // The first twelve digits of a random UUID are random.
      `CREATE TABLE ${schema}.generations (
        number bigint PRIMARY KEY, generation text COLLATE "C" NOT NULL UNIQUE, began_after bigint NOT NULL,
        began_at timestamptz NOT NULL, reason text NOT NULL, origin text
      )`,
      `INSERT INTO ${schema}.generations (number, generation, began_after, began_at, reason)
        VALUES (1, left(replace(gen_random_uuid()::text, '-', ''), 12), 0, clock_timestamp(), 'first')`,
      // The current generation, in the row that a transaction locks when it takes the next numbers of changes.
      `ALTER TABLE ${schema}.destination ADD COLUMN generation text`,
      `UPDATE ${schema}.destination SET generation = (SELECT generation FROM ${schema}.generations)`,
      `ALTER TABLE ${schema}.changes ADD COLUMN generation text`,
      `ALTER TABLE ${schema}.consumers ADD COLUMN generation text`,
      `UPDATE ${schema}.consumers SET generation = (SELECT generation FROM ${schema}.generations)`
    ]
  },
  {
    version: 8,
    sqlite: [
      "ALTER TABLE scans RENAME COLUMN asked TO request",
      "ALTER TABLE scans RENAME COLUMN tally TO totals"
    ],
    postgres: (schema) => [
      `ALTER TABLE ${schema}.scans RENAME COLUMN asked TO request`,
      `ALTER TABLE ${schema}.scans RENAME COLUMN tally TO totals`
    ]
  },
  {
    version: 9,
    sqlite: [
      // What was observed of a service, by list. `service` is a hash of its addresses and account. `evidence` is JSON.
      `CREATE TABLE facts (
        service TEXT NOT NULL, list TEXT NOT NULL, fact TEXT NOT NULL, evidence TEXT NOT NULL,
        PRIMARY KEY (service, list, fact)
      ) STRICT`
    ],
    postgres: (schema) => [
      `CREATE TABLE ${schema}.facts (
        service text NOT NULL, list text NOT NULL, fact text NOT NULL, evidence text NOT NULL,
        PRIMARY KEY (service, list, fact)
      )`
    ]
  },
  {
    version: 10,
    // How a missing row was looked for, as JSON (`Recheck.ts`). NULL: it was not, or the change has another kind.
    sqlite: ["ALTER TABLE changes ADD COLUMN rechecked TEXT"],
    postgres: (schema) => [`ALTER TABLE ${schema}.changes ADD COLUMN rechecked text`],
    eachList: (table) => [`ALTER TABLE ${table} ADD COLUMN rechecked text`]
  },
  {
    version: 11,
    sqlite: [
      // How far the hand-off to a consumer is (`HandoffStore.ts`). `epoch` increases with every sender that takes it over.
      // The batch in flight is the one in `handoff_batches` that begins with this change of this generation.
      `CREATE TABLE handoffs (
        consumer TEXT PRIMARY KEY REFERENCES consumers (name) ON DELETE CASCADE, epoch INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'stopped', 'waiting')), reason TEXT,
        batch_generation TEXT, batch_first INTEGER, attempts INTEGER NOT NULL, first_attempt_at TEXT, next_attempt_at TEXT,
        most_changes INTEGER, suspect_through INTEGER
      ) STRICT`,
      // The boundaries of batches, as long as their changes exist, so that a repeated batch is the same one.
      `CREATE TABLE handoff_batches (
        consumer TEXT NOT NULL REFERENCES consumers (name) ON DELETE CASCADE, generation TEXT NOT NULL,
        after_seq INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, list TEXT NOT NULL,
        changes INTEGER NOT NULL, selection TEXT NOT NULL, nonce TEXT NOT NULL, stored_at TEXT NOT NULL, scanned_at TEXT,
        PRIMARY KEY (consumer, generation, first_seq)
      ) STRICT`,
      // The changes that are sent later than the ones after them: the receiver refuses them, or earlier ones of their record.
      `CREATE TABLE handoff_asides (
        consumer TEXT NOT NULL REFERENCES consumers (name) ON DELETE CASCADE, generation TEXT NOT NULL,
        seq INTEGER NOT NULL, list TEXT NOT NULL, id TEXT NOT NULL, refused INTEGER NOT NULL, selection TEXT NOT NULL,
        nonce TEXT NOT NULL, stored_at TEXT NOT NULL, scanned_at TEXT, PRIMARY KEY (consumer, generation, seq)
      ) STRICT`,
      // The changes that somebody decided not to hand off.
      `CREATE TABLE handoff_skips (
        consumer TEXT NOT NULL, generation TEXT NOT NULL, seq INTEGER NOT NULL, reason TEXT NOT NULL, by TEXT NOT NULL,
        skipped_at TEXT NOT NULL, PRIMARY KEY (consumer, generation, seq)
      ) STRICT`
    ],
    postgres: (schema) => [
      `CREATE TABLE ${schema}.handoffs (
        consumer text COLLATE "C" PRIMARY KEY REFERENCES ${schema}.consumers (name) ON DELETE CASCADE,
        epoch bigint NOT NULL, state text NOT NULL CHECK (state IN ('running', 'stopped', 'waiting')), reason text,
        batch_generation text, batch_first bigint, attempts bigint NOT NULL, first_attempt_at timestamptz,
        next_attempt_at timestamptz, most_changes bigint, suspect_through bigint
      )`,
      `CREATE TABLE ${schema}.handoff_batches (
        consumer text COLLATE "C" NOT NULL REFERENCES ${schema}.consumers (name) ON DELETE CASCADE,
        generation text NOT NULL, after_seq bigint NOT NULL, first_seq bigint NOT NULL, last_seq bigint NOT NULL,
        list text NOT NULL, changes bigint NOT NULL, selection text NOT NULL, nonce text NOT NULL,
        stored_at timestamptz NOT NULL, scanned_at timestamptz, PRIMARY KEY (consumer, generation, first_seq)
      )`,
      `CREATE TABLE ${schema}.handoff_asides (
        consumer text COLLATE "C" NOT NULL REFERENCES ${schema}.consumers (name) ON DELETE CASCADE,
        generation text NOT NULL, seq bigint NOT NULL, list text NOT NULL, id text COLLATE "C" NOT NULL,
        refused bigint NOT NULL, selection text NOT NULL, nonce text NOT NULL, stored_at timestamptz NOT NULL,
        scanned_at timestamptz, PRIMARY KEY (consumer, generation, seq)
      )`,
      `CREATE TABLE ${schema}.handoff_skips (
        consumer text COLLATE "C" NOT NULL, generation text NOT NULL, seq bigint NOT NULL, reason text NOT NULL,
        by text NOT NULL, skipped_at timestamptz NOT NULL, PRIMARY KEY (consumer, generation, seq)
      )`
    ]
  },
  {
    version: 12,
    // The attempts of a change that is set aside and sent again. NULL: at once.
    sqlite: [
      "ALTER TABLE handoff_asides ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0",
      "ALTER TABLE handoff_asides ADD COLUMN first_attempt_at TEXT",
      "ALTER TABLE handoff_asides ADD COLUMN next_attempt_at TEXT"
    ],
    postgres: (schema) => [
      `ALTER TABLE ${schema}.handoff_asides ADD COLUMN attempts bigint NOT NULL DEFAULT 0,
        ADD COLUMN first_attempt_at timestamptz, ADD COLUMN next_attempt_at timestamptz`
    ]
  }
]

/** The version of the tables that this program writes. */
export const currentVersion = 12

/**
 * The oldest version of the tables that a program may read without migrating them. Version 6 added tables, and a column
 * that only a writer reads. Readers do without what version 7 added, and know the names before version 8.
 */
export const oldestReadableVersion = 5

export const earlierVersion =
  "it was written by an earlier version of this program. Export into it first, or run payments migrate."

/** The version from which the tables for personal data and for removed rows exist. */
export const personalVersion = 6

export const generationVersion = 7

/** The version from which the columns `request` and `totals` of `scans` have these names. */
export const renamedVersion = 8

/** The version from which the table of facts exists. */
export const factsVersion = 9

/** The version from which the columns `rechecked` exist. */
export const recheckedVersion = 10

/** The version from which the tables of hand-offs exist. */
export const handoffVersion = 11

/** The version from which changes that are set aside have attempts. */
export const attemptsVersion = 12

export const migrationsAfter = (version: number): ReadonlyArray<Migration> =>
  migrations.filter((migration) => migration.version > version)
