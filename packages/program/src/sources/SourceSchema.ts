/**
 * The schema of the sources file, from the table of settings. The JSON Schema and the reference page derive from it.
 */
import { Schema } from "effect"
import { handoffSetting, handoffSettings, statementSettings } from "../settings/FileTable.ts"
import { allSettings } from "../settings/SettingTable.ts"
import { optional, schemasOf } from "../settings/TableSchema.ts"

/** A source and `[defaults]` have these settings. */
export const SourceSettings = Schema.Struct({
  ...schemasOf(allSettings.source),
  ...schemasOf({ handoff: handoffSetting })
}).mapFields(optional).annotate({
  identifier: "Source"
})

/** The settings that are set, as decoded from the file. */
export type SourceSettings = typeof SourceSettings.Type

/** How the records of a source become transactions of a journal. */
export type JournalSettings = NonNullable<SourceSettings["journal"]>

/** The settings of the hand-off to a consumer. */
export const HandoffSettings = Schema.Struct(schemasOf(handoffSettings)).mapFields(optional)

export type HandoffSettings = typeof HandoffSettings.Type

/** The names of sources. */
export const namePattern = /^[a-z0-9_-]{1,40}$/

const { url, ...others } = schemasOf(allSettings.cluster)

export const ClusterTable = Schema.Struct({ url, ...optional(others) })

/** How the statements of a bank or a provider are reconciled. */
export const StatementSettings = Schema.Struct(schemasOf(statementSettings)).mapFields(optional).annotate({
  identifier: "Statement"
})

export type StatementSettings = typeof StatementSettings.Type

export const SourcesFile = Schema.Struct({
  ...optional(schemasOf(allSettings.file)),
  cluster: Schema.optionalKey(ClusterTable).annotateKey({
    description: "the cluster: several workers with this file share the sources"
  }),
  defaults: Schema.optionalKey(SourceSettings).annotateKey({ description: "settings that all sources share" }),
  sources: Schema.optionalKey(Schema.Record(Schema.String.check(Schema.isPattern(namePattern)), SourceSettings))
    .annotateKey({
      description: "the sources, by name: 1 to 40 small letters, digits, `_` and `-`"
    }),
  statements: Schema.optionalKey(
    Schema.Record(Schema.String.check(Schema.isPattern(namePattern)), StatementSettings)
  ).annotateKey({
    description: "how statements are reconciled, by name: 1 to 40 small letters, digits, `_` and `-`"
  })
})

export const jsonSchema = (): object => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(SourcesFile, { onExcessProperty: "error" })
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "The sources file of payments and payments-worker",
    ...schema,
    $defs: definitions
  }
}
