/**
 * Decodes the bytes of a statement. A byte order mark decides. Otherwise the bytes are UTF-8 if they are valid, and
 * Windows-1252 if no part of them is valid UTF-8 beyond ASCII. A mixture is refused with its place.
 */
import { isAscii } from "node:buffer"
import type { Encoding } from "./Notations.ts"
import { problemAt, StatementError } from "./StatementError.ts"

/** The bytes that Windows-1252 does not define. */
const undefinedBytes = /[\x81\x8d\x8f\x90\x9d]/
/** Letters of UTF-8 as Latin-1 shows them. */
const utf8Letters = /[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}/

/** Decodes chunks of bytes. */
export class Decoder {
  /** The encoding that was found, and why; known after the last chunk. */
  encoding: Encoding
  hasMark = false
  #line = 1
  #utf8Line: number | undefined
  #decoder: InstanceType<typeof TextDecoder>
  #rest: Buffer = Buffer.alloc(0)
  #isStart = true
  readonly #wanted: Encoding | undefined

  constructor(wanted: Encoding | undefined) {
    this.#wanted = wanted
    this.encoding = wanted ?? "utf-8"
    this.#decoder = decoderOf(this.encoding)
  }

  /** Returns the text of the next bytes. `isEnd`: whether they are the last ones. */
  decode(chunk: Buffer, isEnd: boolean): string {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    this.#rest = Buffer.alloc(0)
    if (this.#isStart && bytes.length < 4 && !isEnd) {
      this.#rest = bytes
      return ""
    }
    const text = this.#decode(this.#isStart ? this.#withoutMark(bytes) : bytes, isEnd)
    this.#isStart = false
    if (text.includes("\0")) {
      throw problemAt(
        { line: this.#line + before(text, "\0") },
        "there is a NUL character. If the file is UTF-16 without a byte order mark, add --encoding utf-16le"
      )
    }
    this.#line += count(text)
    return text
  }

  #withoutMark(bytes: Buffer): Buffer {
    const found = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
      ? ["utf-8", 3] as const
      : bytes[0] === 0xff && bytes[1] === 0xfe
      ? ["utf-16le", 2] as const
      : bytes[0] === 0xfe && bytes[1] === 0xff
      ? ["utf-16be", 2] as const
      : undefined
    if (found === undefined) return bytes
    const [encoding, length] = found
    if (this.#wanted !== undefined && this.#wanted !== encoding) {
      throw new StatementError({
        problem: `The file begins with the byte order mark of ${encoding}, so it is not ${this.#wanted}.`
      })
    }
    this.hasMark = true
    this.encoding = encoding
    this.#decoder = decoderOf(encoding)
    // A mark forbids any other encoding.
    this.#utf8Line = 1
    return bytes.subarray(length)
  }

  #decode(bytes: Buffer, isEnd: boolean): string {
    if (this.encoding === "utf-16le" || this.encoding === "utf-16be") return this.#fatal(bytes, isEnd)
    if (isAscii(bytes)) return bytes.toString("latin1")
    // The bytes after the last line break wait for the next chunk, so that no letter is divided.
    const end = isEnd ? bytes.length : bytes.lastIndexOf(10) + 1
    if (end === 0 && bytes.length > mostBytesOfLine) {
      throw problemAt({ line: this.#line }, `the line has more than ${mostBytesOfLine / 1024 / 1024} MiB`)
    }
    this.#rest = bytes.subarray(end)
    const whole = bytes.subarray(0, end)
    if (this.encoding === "windows-1252") return this.#decode1252(whole)
    try {
      const text = this.#decoder.decode(whole)
      if (!isAscii(whole)) this.#utf8Line ??= this.#line + before(text, /[^\0-\x7f]/)
      return text
    } catch {
      return this.#from1252(whole)
    }
  }

  /** The bytes are not UTF-8. They are Windows-1252 unless UTF-8 was wanted, or has occurred. */
  #from1252(bytes: Buffer): string {
    const valid = validPart(bytes)
    const line = this.#line + count(valid)
    if (this.#wanted === "utf-8" || this.hasMark) throw problemAt({ line }, "there are bytes that are not UTF-8")
    const first = valid.search(/[^\0-\x7f]/)
    const utf8Line = this.#utf8Line ?? (first === -1 ? undefined : this.#line + count(valid.slice(0, first)))
    if (utf8Line !== undefined) throw mixed(utf8Line, line)
    this.encoding = "windows-1252"
    this.#decoder = decoderOf("windows-1252")
    return this.#decode1252(bytes)
  }

  #decode1252(bytes: Buffer): string {
    const latin = bytes.toString("latin1")
    const letters = this.#wanted === undefined ? utf8Letters.exec(latin) : null
    if (letters !== null) throw mixed(this.#line + count(latin.slice(0, letters.index)), undefined)
    if (undefinedBytes.test(latin)) {
      throw problemAt(
        { line: this.#line + before(latin, undefinedBytes) },
        "there is a byte that neither UTF-8 nor Windows-1252 has. Save the file as UTF-8"
      )
    }
    return this.#decoder.decode(bytes)
  }

  #fatal(bytes: Buffer, isEnd: boolean): string {
    try {
      return this.#decoder.decode(bytes, { stream: !isEnd })
    } catch {
      throw problemAt({ line: this.#line }, `in or after this line, there are bytes that are not ${this.encoding}`)
    }
  }
}

/** Larger than the longest line of any statement. */
const mostBytesOfLine = 1024 * 1024

const decoderOf = (encoding: Encoding) => new TextDecoder(encoding, { fatal: true, ignoreBOM: true })

const mixed = (utf8Line: number, otherLine: number | undefined) =>
  new StatementError({
    problem: `The file has several encodings: line ${utf8Line} has letters of UTF-8${
      otherLine === undefined ? ", but earlier lines have" : `, but line ${otherLine} has`
    } bytes that are not UTF-8. Save it in one encoding, or add --encoding windows-1252 if you know that it is right.`
  })

/** Returns the valid UTF-8 at the beginning. */
const validPart = (bytes: Buffer): string => {
  // Decoding puts U+FFFD in place of the first invalid byte. A valid U+FFFD in a statement is as good as invalid.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)
  return text.slice(0, text.indexOf("\ufffd"))
}

/** Returns the number of line breaks. */
const count = (text: string): number => {
  let lines = 0
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines++
  return lines
}

/** Returns the number of line breaks before the first match. */
const before = (text: string, part: string | RegExp): number =>
  count(text.slice(0, Math.max(0, typeof part === "string" ? text.indexOf(part) : text.search(part))))
