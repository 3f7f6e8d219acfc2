/** The tables and columns that a statement may use. */

export interface Mentions {
  readonly hasTable: (name: string) => boolean
  readonly hasColumn: (name: string) => boolean
}

/**
 * A statement uses the tables and columns whose names are in its text. An asterisk, except that of `count(*)`, and a
 * NATURAL JOIN use columns that they do not name.
 */
export const mentionsOf = (sql: string): Mentions => {
  const text = sql.toLowerCase().replaceAll(/count\s*\(\s*\*\s*\)/g, "")
  const usesUnnamed = /\*|natural/.test(text)
  const hasTable = (name: string) => text.includes(name)
  return { hasTable, hasColumn: (name) => usesUnnamed || hasTable(name) }
}
