/** Parses the texts of settings: flags, environment variables and the sources file. */
import { pathText, readPaths } from "@payments/copy"
import { Duration } from "effect"
import ms from "ms"

/** Parses the text of a setting. */
export interface SettingParser<A> {
  /** Returns undefined for an invalid text. */
  readonly parse: (text: string) => A | undefined
  /** What a valid text is, for the error message. */
  readonly expected: string
}

/** 1,000 years. A time much farther away is no valid date. */
const longestDuration = 365_000 * 86_400_000

/** A duration as people write it. A number without a unit is invalid, because the unit would be a guess. */
export const duration: SettingParser<Duration.Duration> = {
  expected: "a duration such as 90s, 5m or 2h",
  parse: (text) => {
    // `ms` accepts any text, but returns undefined for one that it cannot parse.
    const millis = /^\d+(\.\d+)? ?[a-z]+$/i.test(text) && text.length <= 100 ? ms(text as ms.StringValue) : undefined
    return millis !== undefined && millis > 0 && millis <= longestDuration ? Duration.millis(millis) : undefined
  }
}

/** The time between two starts. At least 1 s: scans without a pause would overload the service. */
export const interval: SettingParser<Duration.Duration> = {
  expected: `${duration.expected}, not shorter than 1s`,
  parse: (text) => {
    const every = duration.parse(text)
    return every !== undefined && Duration.isGreaterThanOrEqualTo(every, Duration.seconds(1)) ? every : undefined
  }
}

export const percentage: SettingParser<number> = {
  expected: "a percentage from 0% to 100%",
  parse: (text) => {
    const share = /^\d{1,3}(\.\d+)?%$/.test(text) ? Number.parseFloat(text) / 100 : Number.NaN
    return share >= 0 && share <= 1 ? share : undefined
  }
}

export const fieldNames: SettingParser<ReadonlyArray<string>> = {
  expected: "names of fields, separated by commas",
  parse: (text) => {
    const fields = text.split(",").map((name) => name.trim())
    return fields.every((name) => name !== "") ? fields : undefined
  }
}

export const fieldPaths: SettingParser<ReadonlyArray<string>> = {
  expected: "fields such as customerDetails.email, separated by commas",
  parse: (text) => readPaths(text)?.map(({ names }) => pathText(names))
}

export const fieldPath: SettingParser<string> = {
  expected: "a field such as customerDetails.email",
  parse: (text) => {
    const [path, ...others] = readPaths(text) ?? []
    return path === undefined || others.length > 0 ? undefined : pathText(path.names)
  }
}

/** A number for which `isExpected` is true. */
export const numberParser = (expected: string, isExpected: (number: number) => boolean): SettingParser<number> => ({
  expected,
  parse: (text) => {
    const number = /^[+-]?(\d+(\.\d*)?|\.\d+)(e\d+)?$/i.test(text) ? Number(text) : Number.NaN
    return Number.isFinite(number) && isExpected(number) ? number : undefined
  }
})

/** A whole number from `minimum` to `maximum`. Without `maximum` there is no upper limit. */
export const wholeNumber = (minimum: number, maximum?: number): SettingParser<number> =>
  numberParser(
    maximum === undefined ? `a whole number, ${minimum} or more` : `a whole number from ${minimum} to ${maximum}`,
    (number) => Number.isSafeInteger(number) && number >= minimum && number <= (maximum ?? Infinity)
  )
