/**
 * Puts records together in bytes, as they are sent. A record has some forty parts; adding strings and encoding them costs
 * twice as much, and leaves behind what has to be collected.
 */

const zero = 0x30
const dash = 0x2d, colon = 0x3a, stop = 0x2e, letterT = 0x54, letterZ = 0x5a

/** Text that is written again and again, in UTF-8. */
export const fixed = (text: string): Uint8Array => Buffer.from(text)

/** More bytes than numbers and instants write between two fixed texts. */
const reserve = 64

const digitsOf = (value: number): number =>
  value < 10 ? 1 : value < 100 ? 2 : value < 1000 ? 3 : value < 10_000 ? 4 : value < 100_000 ?
    5
    : value < 1_000_000
    ? 6
    : value < 10_000_000
    ? 7
    : value < 100_000_000
    ? 8
    : value < 1_000_000_000
    ? 9
    : 10

/** Calling for a copy takes as long as copying so many bytes one by one. */
const shortest = 12

/** A buffer that grows, with what records are made of. */
export class RecordWriter {
  #bytes = Buffer.allocUnsafeSlow(8192)
  #at = 0

  put(text: Uint8Array): void {
    // Room for the text and for the digits that may follow it.
    if (this.#at + text.length + reserve > this.#bytes.length) this.#grow(text.length)
    const at = this.#at
    if (text.length > shortest) this.#bytes.set(text, at)
    else {
      const bytes = this.#bytes
      for (let index = 0; index < text.length; index++) bytes[at + index] = text[index] ?? 0
    }
    this.#at = at + text.length
  }

  /** An integer. */
  number(value: number): void {
    if (value < 0 || value > 0x7fff_ffff) return this.put(fixed(String(value)))
    this.digits(value, digitsOf(value))
  }

  /** The last digits of an integer below 2^31, with zeros before it. */
  digits(value: number, count: number): void {
    const bytes = this.#bytes
    const start = this.#at
    let left = value | 0
    for (let at = start + count - 1; at >= start; at--) {
      const next = (left / 10) | 0
      bytes[at] = zero + left - next * 10
      left = next
    }
    this.#at = start + count
  }

  /** Six digits to the base of 36, of an integer below 2^31. */
  base36(value: number): void {
    const bytes = this.#bytes
    const start = this.#at
    let left = value | 0
    for (let at = start + 5; at >= start; at--) {
      const next = (left / 36) | 0
      const digit = left - next * 36
      bytes[at] = digit < 10 ? zero + digit : 0x57 + digit
      left = next
    }
    this.#at = start + 6
  }

  /** `YYYY-MM-DD` of a day since 1970. */
  date(day: number): void {
    // Counted from a first of March, leap days come last: in 4, 100 and 400 years, and months in a pattern of five.
    const since = (day + 719_468) | 0
    const era = (since / 146_097) | 0
    const inEra = since - era * 146_097
    const leaps = ((inEra / 36_524) | 0) - ((inEra / 1460) | 0) - ((inEra / 146_096) | 0)
    const year = ((inEra + leaps) / 365) | 0
    const inYear = inEra - (365 * year + (year >> 2) - ((year / 100) | 0))
    const month = ((5 * inYear + 2) / 153) | 0
    const january = month >= 10
    this.digits(era * 400 + year + (january ? 1 : 0), 4)
    this.#byte(dash)
    this.digits(month + (january ? -9 : 3), 2)
    this.#byte(dash)
    this.digits(inYear - (((153 * month + 2) / 5) | 0) + 1, 2)
  }

  /** An instant (ms since 1970) with the precision of payout requests and payin sources (§2.2, §2.3). */
  seconds(ms: number): void {
    this.#clock(ms)
    this.#byte(letterZ)
  }

  /** An instant (ms since 1970) with the precision of invoices (§2.4). */
  milliseconds(ms: number): void {
    this.#clock(ms)
    this.#byte(stop)
    this.digits(ms % 1000, 3)
    this.#byte(letterZ)
  }

  /** Where the next part goes. */
  get length(): number {
    return this.#at
  }

  /** A copy of what was written from that place on. */
  since(start: number): Uint8Array {
    return Uint8Array.prototype.slice.call(this.#bytes, start, this.#at)
  }

  /** All that was written since the last time, as text. */
  takeText(): string {
    const text = this.#bytes.toString("utf8", 0, this.#at)
    this.#at = 0
    return text
  }

  /** All that was written since the last time, as bytes that stay as they are until the next is written. */
  takeBytes(): Uint8Array {
    const bytes = this.#bytes.subarray(0, this.#at)
    this.#at = 0
    return bytes
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(2 * (this.#bytes.length + length))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
  }

  #clock(ms: number): void {
    const day = Math.floor(ms / 86_400_000)
    const second = ((ms - day * 86_400_000) / 1000) | 0
    const minute = (second / 60) | 0
    const hour = (minute / 60) | 0
    this.date(day)
    this.#byte(letterT)
    this.digits(hour, 2)
    this.#byte(colon)
    this.digits(minute - hour * 60, 2)
    this.#byte(colon)
    this.digits(second - minute * 60, 2)
  }

  #byte(code: number): void {
    this.#bytes[this.#at++] = code
  }
}
