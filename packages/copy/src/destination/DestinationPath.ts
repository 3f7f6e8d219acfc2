/**
 * Checks the path of a destination: the text after the colon. Text that another program would read differently (a URL,
 * a name that SQLite defines, a path of another system) is refused with a corrected text. Used as a path, it would
 * create a file in an unexpected place.
 */
import { Lists } from "@payments/core"
import { posix, sep } from "node:path"
import { printable } from "../text/Printable.ts"

export type PathScheme = "sqlite" | "file"

const example = { sqlite: "sqlite:./payments.db", file: "file:./payments" } as const

/** Returns the problem of the path and a corrected text, or undefined if the path is valid. */
export const problemOf = (scheme: PathScheme, path: string): string | undefined => {
  if (path.trim() === "") return `${scheme}: names no ${scheme === "sqlite" ? "file" : "folder"}.`
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(path)) {
    return `${scheme}: a name with a line break or another control character is refused.`
  }
  if (path.trim() !== path) return `The path starts or ends with a space: write ${corrected(scheme, path)}.`
  if (/^(file|sqlite3?):/i.test(path)) {
    return `${scheme}: needs a path, not a URL: write ${corrected(scheme, path)}.`
  }
  // A URL may contain a password, so the message does not repeat it.
  if (/^\/\/[^/]*@/.test(path)) return `${scheme}: needs a path, not a URL: write ${example[scheme]}.`
  if (path.startsWith("//")) {
    const rest = path.replace(/^\/+/, "")
    const isRelative = /^\.{1,2}\//.test(rest)
    if (rest === "" || isRelative) {
      return `A path needs no // after the colon: write ${corrected(scheme, rest === "" ? example[scheme] : rest)}.`
    }
    return `A path needs no // after the colon: write ${corrected(scheme, `./${rest}`)}, or ${
      corrected(scheme, `/${rest}`)
    } for a path from the root.`
  }
  if (sep === "/" && path.includes("\\")) {
    return `A path separates its folders with /: write ${corrected(scheme, path)}.`
  }
  if (path === "~" || path.startsWith("~/")) {
    return `The shell does not replace ~ after a colon: write ${scheme}:$HOME${printable(path.slice(1))}.`
  }
  return scheme === "sqlite" ? databaseFileProblem(path) : undefined
}

/** The suffixes of the files that accompany an open database. */
const companionSuffixes = [
  "-wal",
  "-shm",
  "-journal",
  ...[...Lists.all.map(({ label }) => label), "manifest"].flatMap((label) => [`.${label}.lock`, `.${label}.holder`])
]

const databaseFileProblem = (path: string): string | undefined => {
  if (path.startsWith(":")) {
    return `SQLite's own names, such as :memory:, store nothing: write ${example.sqlite}.`
  }
  if (path.includes("?")) return `sqlite: has no options: write ${corrected("sqlite", path)}.`
  if (companionSuffixes.some((suffix) => path.endsWith(suffix))) {
    return `sqlite: a file of that name belongs to the database next to it. Choose another name, such as ${example.sqlite}.`
  }
  if (/(^|\/)(\.{0,2})$/.test(path)) {
    return `sqlite: names a folder: write ${corrected("sqlite", posix.join(path, "payments.db"))}.`
  }
  return undefined
}

/** Returns the destination that an invalid path probably means. */
const corrected = (scheme: PathScheme, path: string): string => {
  const bare = path.trim().replace(/^((file|sqlite3?):)+/i, "").replace(/^\/\/+/, "/")
  const withoutOptions = scheme === "sqlite" ? bare.replace(/\?.*$/s, "") : bare
  const result = sep === "/" ? withoutOptions.replaceAll("\\", "/") : withoutOptions
  return result === "" ? example[scheme] : `${scheme}:${printable(result)}`
}

/** Returns the correction of a text that does not start with a known scheme. */
export const suggestionFor = (text: string): string => {
  const trimmed = text.trim()
  const [, given, rest = ""] = /^([A-Za-z][\w+.-]+):(.*)$/s.exec(trimmed) ?? []
  const scheme = given?.toLowerCase()
  if (scheme !== undefined && /^(postgres(ql)?|pg|pgsql|psql)$/.test(scheme)) {
    return "Write postgres://HOST/DATABASE, in lower case."
  }
  if (scheme === "sqlite" || scheme === "sqlite3" || scheme === "file") {
    const known = scheme === "file" ? "file" : "sqlite"
    return problemOf(known, rest) ?? `Write ${corrected(known, rest)}.`
  }
  // A URL or an option may contain a password, so the message does not repeat it.
  if (scheme !== undefined || trimmed === "" || /[@\p{Cc}\p{Zl}\p{Zp}]|^-/u.test(trimmed)) {
    return "This is not a destination."
  }
  const path = /^[./~]/.test(trimmed) ? trimmed : `./${trimmed}`
  const file = problemOf("sqlite", path) ?? `Write ${corrected("sqlite", path)}.`
  return /\.(db|db3|sqlite|sqlite3)$/i.test(path)
    ? `The scheme is missing. ${file}`
    : `The scheme is missing. Write ${corrected("sqlite", path)} for a database, or ${
      corrected("file", path)
    } for a folder of files.`
}
