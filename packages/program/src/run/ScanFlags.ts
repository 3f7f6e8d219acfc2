/** The flags of a scan, for both programs. */
import { Effect } from "effect"
import { checkAll } from "../outcome/ProgramError.ts"
import { settingFlags } from "../settings/Flags.ts"
import { valueGiven } from "../settings/Setting.ts"
import { allSettings } from "../settings/SettingTable.ts"
import { ChosenSource } from "../sources/ChosenSource.ts"

/** The flags of a scan. Each has an environment variable, too. */
export const scanFlags = settingFlags(allSettings.source, "payments")

/** Parses the {@link scanFlags} or their environment variables. The rest comes from the chosen source. */
export const chosenScanOptionsOf = Effect.fnUntraced(
  function*(given: { readonly [Name in keyof typeof scanFlags]: string | undefined }) {
    const rows = allSettings.source
    const { forService } = yield* ChosenSource
    const { source, ...options } = yield* checkAll({
      patience: valueGiven(rows.patience, given.patience),
      onLocked: valueGiven(rows.on_locked, given.onLocked),
      ignoredFields: valueGiven(rows.ignore_fields, given.ignoreField),
      missingLimit: valueGiven(rows.missing_limit, given.missingLimit),
      source: forService
    })
    return source === undefined ? options : {
      patience: options.patience ?? source.scan.patience,
      onLocked: options.onLocked ?? source.scan.onLocked,
      ignoredFields: options.ignoredFields ?? source.scan.ignoredFields,
      missingLimit: options.missingLimit ?? source.scan.missingLimit
    }
  }
)
