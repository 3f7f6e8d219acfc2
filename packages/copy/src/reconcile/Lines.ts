/** Reads the values of a statement's lines, and puts the lines into the ledger. */
import { type AmountRules, type Decimal, type DecimalMark, readAmount, scaled } from "./Amounts.ts"
import { DateColumn } from "./Dates.ts"
import { keyText, type Ledger } from "./Ledger.ts"
import type { DateOrder } from "./Notations.ts"
import { problemAt, StatementError } from "./StatementError.ts"

/** The values of a line, as the file has them. */
export interface RawLine {
  /** The number of the line in a CSV file, and of the entry or transaction in camt.053. */
  readonly line: number
  readonly keys: ReadonlyArray<string>
  readonly amount: string
  readonly fee: string | undefined
  readonly day: string | undefined
}

/** Where a value stands, for messages. */
export interface Place {
  readonly column?: number
  readonly name: string
}

export interface LineRules {
  /** The decimals of the copy's amounts; undefined if they are unknown. */
  readonly decimals: number | undefined
  readonly decimal: DecimalMark | undefined
  readonly dates: DateOrder | undefined
  readonly hasParentheses: boolean
  readonly isDayCompared: boolean
  readonly isNegated: { readonly amount: boolean; readonly fee: boolean }
  readonly toKey: (values: ReadonlyArray<string>) => ReadonlyArray<string>
}

export class Lines {
  count = 0
  firstDay: number | undefined
  lastDay: number | undefined
  /** The first line without one of the compared texts. */
  firstWithoutKey: number | undefined
  withoutKey = 0
  /** The lines whose date is empty. Only a date that is not compared may be. */
  withoutDay = 0
  decimal: DecimalMark | undefined
  readonly dates: DateColumn
  readonly #ledger: Ledger
  readonly #rules: LineRules
  /** Where the values stand. The reader of the file sets it when it knows. */
  places: { readonly amount: Place; readonly fee: Place; readonly day: Place } = {
    amount: { name: "amount" },
    fee: { name: "fee" },
    day: { name: "date" }
  }

  constructor(ledger: Ledger, rules: LineRules) {
    this.#ledger = ledger
    this.#rules = rules
    this.decimal = rules.decimal
    this.dates = new DateColumn(rules.dates)
  }

  add(raw: RawLine): void {
    this.count++
    const { line } = raw
    const amount = this.#amount(raw.amount, line, "amount")
    const fee = raw.fee === undefined || raw.fee.trim() === "" ? null : this.#amount(raw.fee, line, "fee")
    const day = this.#dayIn(raw.day, line)
    const key = keyText(this.#rules.toKey(raw.keys))
    if (key === null && raw.keys.length > 0) {
      this.firstWithoutKey ??= line
      this.withoutKey++
    }
    if (raw.day?.trim() === "") this.withoutDay++
    const isPending = amount === "ambiguous" || fee === "ambiguous" || day === "ambiguous"
    this.#ledger.addLine({ line, key, ...isPending ? noValues : valuesOf(amount, fee, day) })
    if (isPending) {
      this.#ledger.insert("pending", line, raw.amount, raw.fee ?? null, raw.day ?? null)
    }
  }

  /** Reads the values that were ambiguous when their lines were read. */
  finish(): void {
    const rows = this.#ledger.rows("SELECT line, amount, fee, day FROM pending ORDER BY line")
    for (const [given, amountText, feeText, dayText] of rows) {
      const line = Number(given)
      const amount = this.#amount(String(amountText), line, "amount")
      const fee = typeof feeText !== "string" || feeText.trim() === "" ? null : this.#amount(feeText, line, "fee")
      const day = this.#dayIn(typeof dayText === "string" ? dayText : undefined, line)
      if (amount === "ambiguous" || fee === "ambiguous") {
        throw problemAt(
          { line, ...this.places[amount === "ambiguous" ? "amount" : "fee"] },
          "the mark may be before three decimals or between thousands, and no amount of the file shows which. Add --decimal comma or --decimal point"
        )
      }
      if (day === "ambiguous") {
        throw problemAt(
          { line, ...this.places.day },
          "the day and the month may be in either order, and no date of the file shows which. Add --dates dmy or --dates mdy"
        )
      }
      const values = valuesOf(amount, fee, day)
      this.#ledger.run(
        "UPDATE lines SET amount = ?, fee = ?, day = ? WHERE line = ?",
        values.amount,
        values.fee,
        values.day,
        line
      )
    }
  }

  #amount(text: string, line: number, part: "amount" | "fee"): bigint | "ambiguous" {
    const rules: AmountRules = { decimal: this.decimal, hasParentheses: this.#rules.hasParentheses }
    const found = readAmount(text, rules)
    if (found === "ambiguous") return found
    const place = { line, ...this.places[part] }
    if ("problem" in found) throw problemAt(place, `the amount ${found.problem}`)
    this.decimal ??= found.proves
    return this.#scaled(found, place, this.#rules.isNegated[part])
  }

  #scaled(found: Decimal, place: Parameters<typeof problemAt>[0], isNegated: boolean): bigint {
    const amount = scaled(found, this.#rules.decimals)
    if (typeof amount !== "bigint") throw problemAt(place, `the amount ${amount.problem}`)
    if (BigInt.asIntN(64, amount) !== amount) throw problemAt(place, "the amount needs more than 64 bits")
    return isNegated ? -amount : amount
  }

  /** A date that is not compared may be empty. */
  #dayIn(text: string | undefined, line: number): number | "ambiguous" | null {
    return text === undefined || (text.trim() === "" && !this.#rules.isDayCompared) ? null : this.#day(text, line)
  }

  #day(text: string, line: number): number | "ambiguous" {
    const found = this.dates.read(text, line)
    if (typeof found === "object") throw problemAt({ line, ...this.places.day }, `the date ${found.problem}`)
    if (found !== "ambiguous") {
      this.firstDay = this.firstDay === undefined ? found : Math.min(this.firstDay, found)
      this.lastDay = this.lastDay === undefined ? found : Math.max(this.lastDay, found)
    }
    return found
  }

  /** Refuses a statement without lines: a file that was cut, or another file. */
  requireLines(): void {
    if (this.count === 0) throw new StatementError({ problem: "The file has no lines after the names of its columns." })
  }
}

const noValues = { amount: null, fee: null, day: null } as const

/** The amount without fees is what the records say: the fee was deducted from it. */
const valuesOf = (amount: bigint, fee: bigint | null, day: number | null) => ({
  amount: amount + (fee ?? 0n),
  fee,
  day
})
