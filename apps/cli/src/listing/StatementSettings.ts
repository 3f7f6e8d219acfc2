/** The settings of `payments reconcile` that say what is compared, and how a statement writes it. */
import { dayNumber, decimalsOf, type EntryClass, entryClasses, type MappedColumn } from "@payments/copy"
import { Lists } from "@payments/core"
import { duration, type SettingParser, usage } from "@payments/program"
import { Duration, Effect } from "effect"

export const fieldsParser: SettingParser<ReadonlyArray<string>> = {
  expected: "names of fields, separated by commas, such as reference,amount",
  parse: (text) => {
    const names = text.split(",").map((name) => name.trim())
    return names.includes("") ? undefined : names
  }
}

export const daysParser: SettingParser<number> = {
  expected: "a number of days such as 2d",
  parse: (text) => {
    if (text === "0" || text === "0d") return 0
    const days = Duration.toMillis(duration.parse(text) ?? Duration.zero) / 86_400_000
    return Number.isInteger(days) && days > 0 && days <= 3660 ? days : undefined
  }
}

export const unitParser: SettingParser<number> = {
  expected: "cents, units, mills, or the number of decimals from 0 to 18",
  parse: decimalsOf
}

export const dayParser: SettingParser<number> = { expected: "a day such as 2024-05-31", parse: dayNumber }

export const classesParser: SettingParser<ReadonlyArray<EntryClass>> = {
  expected: "all, or matched, expected, missing and different, separated by commas",
  parse: (text) => {
    const words = text.split(",").map((word) => word.trim())
    if (words.some((word) => !["all", "matched", "expected", "missing", "different"].includes(word))) return undefined
    return entryClasses.filter((name) => words.includes("all") || words.includes(name.split(" ")[0] ?? ""))
  }
}

/**
 * A comma divides two columns only before `FIELD=`, so names of columns may have commas. The flags override the saved
 * columns. Saved columns of fields that are not compared are not used.
 */
export const mapOf = (texts: ReadonlyArray<string>, saved: { readonly [field: string]: string } = {}) =>
  Effect.gen(function*() {
    const map: { [field: string]: MappedColumn } = {}
    for (const pair of texts.flatMap((text) => text.split(/,(?=\s*[A-Za-z_.]+=)/))) {
      const [, name = "", column = ""] = /^\s*([A-Za-z_.]+)=(.+)$/s.exec(pair) ?? []
      if (column.replace("-", "").trim() === "") {
        return yield* usage(
          "Invalid value for --map. Expected: FIELD=COLUMN, separated by commas, such as amount=Betrag"
        )
      }
      const field = fieldNames.get(name) ?? name
      if (map[field] !== undefined) return yield* usage(`--map names two columns for ${field}.`)
      map[field] = columnOf(column)
    }
    const ofFile = Object.entries(saved).map(([name, column]) =>
      [fieldNames.get(name) ?? name, { ...columnOf(column), isOptional: true }] as const
    )
    return { ...Object.fromEntries(ofFile), ...map }
  })

const columnOf = (text: string): MappedColumn => ({
  column: text.trim().replace(/^-/, "").trim(),
  isNegated: text.trim().startsWith("-")
})

/** The names of fields by those of their columns, such as `settlement_date`. */
const fieldNames: ReadonlyMap<string, string> = new Map(
  Lists.all.flatMap((list) => Lists.fieldMeanings(list).map(({ path }) => path.join(".")))
    .map((path) => [path.replaceAll(".", "_").replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), path])
)
