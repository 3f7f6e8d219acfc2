/** The flags of a scan. */
import { Effect } from "effect"
import { checkAll } from "../outcome/ProgramError.ts"
import { setting } from "../settings/Setting.ts"
import { duration, fieldNames, onLocked, percentage } from "../settings/SettingParser.ts"
import { ChosenSource } from "../sources/ChosenSource.ts"
import { textFlag } from "./Flags.ts"

/** The flags of a scan, for both programs. Each has an environment variable too. */
export const scanFlags = {
  patience: textFlag(
    "patience",
    "DURATION",
    "how long to retry a page that keeps failing; default 15m (PAYMENTS_PATIENCE)"
  ),
  onLocked: textFlag(
    "on-locked",
    "refuse|wait",
    "what to do while another program writes the same list; default refuse, for an endless worker wait (PAYMENTS_ON_LOCKED)"
  ),
  ignoreFields: textFlag(
    "ignore-field",
    "NAMES",
    "fields to ignore when comparing records, such as authUrl (PAYMENTS_IGNORE_FIELD)"
  ),
  missingLimit: textFlag(
    "missing-limit",
    "PERCENT",
    "the share of a list that may be marked missing at once; default 10%; up to 3 rows always, unless it is 0% (PAYMENTS_MISSING_LIMIT)"
  )
}

/** The texts of the {@link scanFlags}. */
interface GivenScanFlags {
  readonly patience: string | undefined
  readonly onLocked: string | undefined
  readonly ignoreFields: string | undefined
  readonly missingLimit: string | undefined
}

/** Parses the {@link scanFlags} or their environment variables. What they leave out comes from the chosen source. */
export const chosenScanOptionsOf = Effect.fnUntraced(function*(given: GivenScanFlags) {
  const { options, source } = yield* checkAll({
    options: scanOptionsOf(given),
    source: (yield* ChosenSource).forService
  })
  return source === undefined ? options : {
    patience: options.patience ?? source.scan.patience,
    onLocked: options.onLocked ?? source.scan.onLocked,
    ignoredFields: options.ignoredFields ?? source.scan.ignoredFields,
    missingLimit: options.missingLimit ?? source.scan.missingLimit
  }
})

/** Parses the {@link scanFlags} or their environment variables. */
export const scanOptionsOf = (given: GivenScanFlags) =>
  checkAll({
    patience: setting({ name: "patience", text: given.patience }, "PAYMENTS_PATIENCE", duration),
    onLocked: setting({ name: "on-locked", text: given.onLocked }, "PAYMENTS_ON_LOCKED", onLocked),
    ignoredFields: setting({ name: "ignore-field", text: given.ignoreFields }, "PAYMENTS_IGNORE_FIELD", fieldNames),
    missingLimit: setting({ name: "missing-limit", text: given.missingLimit }, "PAYMENTS_MISSING_LIMIT", percentage)
  })
