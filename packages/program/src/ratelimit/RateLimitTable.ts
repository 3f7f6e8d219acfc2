/** The table of the rate limit store. All deployments of a database can share it: each key has rows of its own. */
import { quoted, rateLimitTable } from "@payments/copy/postgres"

export const name = rateLimitTable

/** The qualified and quoted name, for statements. */
export const tableOf = (schema: string): string => `${quoted(schema)}.${name}`

export const createSchema = (schema: string): string => `CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`

export const createTable = (schema: string): string =>
  `CREATE UNLOGGED TABLE IF NOT EXISTS ${
    tableOf(schema)
  } (key text PRIMARY KEY, state double precision[], expires_at double precision, answer double precision[])`

/** What an owner of the database has to run for a user without privileges. */
export const grant = (schema: string): string =>
  `Let its owner run: ${schema === "public" ? "" : `${createSchema(schema)}; `}${createTable(schema)}; GRANT ${
    schema === "public" ? "" : `USAGE ON SCHEMA ${quoted(schema)} TO the user; GRANT `
  }SELECT, INSERT, UPDATE, DELETE ON ${tableOf(schema)} TO the user.`
