/** The environment variables of a rule for personal fields. Every start of a program loads this file, so it imports no other. */
import { ConfigProvider } from "effect"
import type { RuleSettings } from "./RuleSettings.ts"

/** The environment variables of a rule, and the settings of the file that they resemble. */
export const ruleVariables = [
  ["PAYMENTS_PERSONAL", "personal"],
  ["PAYMENTS_OMIT", "omit"],
  ["PAYMENTS_PSEUDONYMIZE", "pseudonymize"],
  ["PAYMENTS_KEEP", "keep"],
  ["PAYMENTS_UNDOCUMENTED", "undocumented"]
] as const satisfies ReadonlyArray<readonly [string, keyof RuleSettings]>

/**
 * Provides the variables of a rule that are set but empty, as empty texts. A variable that is empty usually counts as not set.
 * But an empty variable of a rule is probably a mistake, and without the rule, personal data would be kept.
 */
export const emptyRuleVariables = (
  environment: Readonly<Record<string, string | undefined>>
): ConfigProvider.ConfigProvider =>
  ConfigProvider.fromEnvRecord(
    Object.fromEntries(ruleVariables.flatMap(([name]) => environment[name] === "" ? [[name, ""]] : [])),
    { preserveEmptyStrings: true }
  )
