/**
 * The path of a destination follows the colon, as it would stand on a command line. Text that another program reads in another
 * way (a URL, a name that SQLite defines, a path of another system) is refused with the correct text: as a path it would make a
 * file in an unexpected place.
 */
import { Lists } from "@payments/core"
import { posix, sep } from "node:path"
import { printable } from "./Stdout.ts"

/** The destinations that are a path. */
export type PathScheme = "sqlite" | "file"

const example = { sqlite: "sqlite:./payments.db", file: "file:./payments" } as const

/** What is wrong with the path, and what to write; undefined where nothing is. */
export const problemOf = (scheme: PathScheme, path: string): string | undefined => {
  if (path.trim() === "") return `${scheme}: names no ${scheme === "sqlite" ? "file" : "folder"}.`
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(path)) {
    return `${scheme}: a name with a line break or another control character is refused.`
  }
  if (path.trim() !== path) return `A name has no spaces around it: write ${rightOf(scheme, path)}.`
  if (/^(file|sqlite3?):/i.test(path)) {
    return `${scheme}: takes a path, not a URL: write ${rightOf(scheme, path)}.`
  }
  // A URL may hold a password: it is not repeated.
  if (/^\/\/[^/]*@/.test(path)) return `${scheme}: takes a path, not a URL: write ${example[scheme]}.`
  if (path.startsWith("//")) {
    const rest = path.replace(/^\/+/, "")
    const isRelative = /^\.{1,2}\//.test(rest)
    if (rest === "" || isRelative) {
      return `The path follows the colon without slashes of a URL: write ${
        rightOf(scheme, rest === "" ? example[scheme] : rest)
      }.`
    }
    return `The path follows the colon without slashes of a URL: write ${rightOf(scheme, `./${rest}`)}, or ${
      rightOf(scheme, `/${rest}`)
    } for one from the root.`
  }
  if (sep === "/" && path.includes("\\")) {
    return `The folders of a path are divided by /: write ${rightOf(scheme, path)}.`
  }
  if (path === "~" || path.startsWith("~/")) {
    return `The shell does not replace ~ behind a colon: write ${scheme}:$HOME${printable(path.slice(1))}.`
  }
  return scheme === "sqlite" ? problemOfFile(path) : undefined
}

/** How the names of the files end that lie beside a database while it is open. */
const companions = [
  "-wal",
  "-shm",
  "-journal",
  ...[...Lists.all.map(({ label }) => label), "manifest"].flatMap((label) => [`.${label}.lock`, `.${label}.holder`])
]

const problemOfFile = (path: string): string | undefined => {
  if (path.startsWith(":")) {
    return `SQLite's own names, such as :memory:, keep nothing: write ${example.sqlite}.`
  }
  if (path.includes("?")) return `sqlite: takes no options: write ${rightOf("sqlite", path)}.`
  if (companions.some((end) => path.endsWith(end))) {
    return `sqlite: a file of that name belongs to the database beside it. Choose another name, such as ${example.sqlite}.`
  }
  if (/(^|\/)(\.{0,2})$/.test(path)) {
    return `sqlite: names a folder: write ${rightOf("sqlite", posix.join(path, "payments.db"))}.`
  }
  return undefined
}

/** The text that is meant by a path that was written in another way. */
const rightOf = (scheme: PathScheme, path: string): string => {
  const bare = path.trim().replace(/^((file|sqlite3?):)+/i, "").replace(/^\/\/+/, "/")
  const options = scheme === "sqlite" ? bare.replace(/\?.*$/s, "") : bare
  const right = sep === "/" ? options.replaceAll("\\", "/") : options
  return right === "" ? example[scheme] : `${scheme}:${printable(right)}`
}

/** What to write for a text whose beginning names no kind of destination. */
export const guessOf = (text: string): string => {
  const trimmed = text.trim()
  const [, given, rest = ""] = /^([A-Za-z][\w+.-]+):(.*)$/s.exec(trimmed) ?? []
  const scheme = given?.toLowerCase()
  if (scheme !== undefined && /^(postgres(ql)?|pg|pgsql|psql)$/.test(scheme)) {
    return "Write postgres://HOST/DATABASE, in lower case."
  }
  if (scheme === "sqlite" || scheme === "sqlite3" || scheme === "file") {
    const known = scheme === "file" ? "file" : "sqlite"
    return problemOf(known, rest) ?? `Write ${rightOf(known, rest)}.`
  }
  // A URL or an option may hold a password: it is not repeated.
  if (scheme !== undefined || trimmed === "" || /[@\p{Cc}\p{Zl}\p{Zp}]|^-/u.test(trimmed)) {
    return "This is no destination."
  }
  const path = /^[./~]/.test(trimmed) ? trimmed : `./${trimmed}`
  const file = problemOf("sqlite", path) ?? `Write ${rightOf("sqlite", path)}`
  return /\.(db|db3|sqlite|sqlite3)$/i.test(path)
    ? `It does not say what it is. ${file}.`
    : `It does not say what it is. Write ${rightOf("sqlite", path)} for a database, or ${
      rightOf("file", path)
    } for a folder of files.`
}
